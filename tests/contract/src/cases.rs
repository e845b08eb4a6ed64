//! Turns lists of cases into tests. Each case is a function of a module of the test target: `async fn(&Target) ->
//! Result<()>`.

/// Makes one test of each case: `MODULE::CASE`, run by `RUN` (mostly [`crate::run()`]) on the target that `START`
/// creates.
#[macro_export]
macro_rules! cases {
    ($module:ident, $run:path, $start:path, { $($group:ident { $($case:ident),+ $(,)? })+ }) => {
        mod $module {
            $($(
                #[test]
                fn $case() -> anyhow::Result<()> {
                    $run($start, super::$group::$case)
                }
            )+)+
        }
    };
}

/// Makes two tests of each case: `fake::CASE`, and `real::CASE` on the shared control plane.
#[macro_export]
macro_rules! cases_for_both {
    ($run:path, { $($cases:tt)+ }) => {
        $crate::cases!(fake, $run, $crate::Target::fake, { $($cases)+ });
        $crate::cases!(real, $run, $crate::Target::shared, { $($cases)+ });
    };
}

/// For cases that stop or freeze a part of the control plane, or install something that all other cases would see: a
/// test `faults_fake::CASE` for each, and one test `faults_real` that runs them one after the other on a control plane
/// of its own.
#[macro_export]
macro_rules! cases_with_faults {
    ($run:path, { $($cases:tt)+ }) => {
        $crate::cases!(faults_fake, $run, $crate::Target::fake, { $($cases)+ });
        $crate::cases_in_turn!(faults_real, $crate::Target::own, { $($cases)+ });
    };
}

/// As [`cases_with_faults`], but each case gets a control plane of its own: `faults_real::CASE`.
#[macro_export]
macro_rules! cases_with_faults_apart {
    ($run:path, { $($cases:tt)+ }) => {
        $crate::cases!(faults_fake, $run, $crate::Target::fake, { $($cases)+ });
        $crate::cases!(faults_real, $run, $crate::Target::own, { $($cases)+ });
    };
}

/// Makes one test of all cases. They run one after the other on one target, of which they stop or freeze parts.
#[macro_export]
macro_rules! cases_in_turn {
    ($name:ident, $start:path, { $($group:ident { $($case:ident),+ $(,)? })+ }) => {
        #[test]
        fn $name() -> anyhow::Result<()> {
            use anyhow::Context as _;

            $crate::run($start, async |target: &$crate::Target| {
                $($(self::$group::$case(target).await.context(stringify!($case))?;)+)+
                Ok(())
            })
        }
    };
}
