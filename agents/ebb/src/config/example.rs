//! `ebb config example`: a settings file in which every key stands as a comment.

use runtime::settings::ShownSetting;

use crate::markdown::without_links;

/// Columns of the explanations.
const COLUMNS: usize = 100;

const HEAD: &str = "\
# Every setting of ebb: its meaning, what it accepts, and its default. To change some, write their lines without
# the # into a file of your own, /etc/ebb/ebb.d/NAME.toml. Agents follow it without a restart, but for the settings
# that `ebb config show` lists with LIVE = no. `ebb config check` prints mistakes. Rules for single pods ([[rule]]),
# and which file wins: docs/settings.md (with a package below /usr/share/doc/ebb).";

/// The lines of the file.
pub(super) fn lines(settings: &[ShownSetting]) -> Vec<String> {
    HEAD.lines().map(str::to_owned).chain(settings.iter().flat_map(entry)).collect()
}

fn entry(setting: &ShownSetting) -> Vec<String> {
    let ShownSetting { key, default, accepted, meaning, .. } = setting;
    let text = format!("{} Accepted: {accepted}.", without_links(meaning, |_| false));
    let options = kubectl_ebb::screen::wrapping(COLUMNS).initial_indent("# ").subsequent_indent("# ");
    let explained = textwrap::wrap(&text, options).into_iter().map(String::from);
    let line = format!("#{key} = {}", in_toml(default));
    [String::new()].into_iter().chain(explained).chain([line]).collect()
}

/// The value of a setting as TOML has it: all but numbers, truth values and lists is a text.
fn in_toml(value: &str) -> String {
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let is_literal = is_number || value.starts_with('[') || matches!(value, "true" | "false");
    if is_literal { value.to_owned() } else { format!("\"{value}\"") }
}

#[cfg(test)]
mod tests {
    use pubsub::Root;
    use runtime::AgentFlags;
    use runtime::settings::load;

    use super::*;

    /// Whoever takes all comments away has the defaults, and no mistake.
    #[test]
    fn every_line_of_the_example_is_good() -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let flags = AgentFlags { root: folder.path().to_owned(), ..AgentFlags::default() };
        let defaults = load(&Root::new(folder.path()), &flags, None).shown();
        let text = lines(&defaults).join("\n").replace("\n#", "\n");
        let settings: Vec<&str> = text.lines().filter(|line| !line.starts_with([' ', '#'])).collect();
        let file = folder.path().join("all.toml");
        #[expect(clippy::disallowed_methods, reason = "a test's own file")]
        std::fs::write(&file, settings.join("\n"))?;
        let flags = AgentFlags { config: vec![file], ..flags };
        let loaded = load(&Root::new(folder.path()), &flags, None);
        assert_eq!(loaded.problems, []);
        let values = |shown: Vec<ShownSetting>| shown.into_iter().map(|setting| (setting.key, setting.value));
        assert!(values(loaded.shown()).eq(values(defaults.clone())));
        let is_default = |setting: &ShownSetting| setting.origin == defaults[0].origin;
        assert!(!loaded.shown().iter().any(is_default), "{:?}", loaded.shown());
        Ok(())
    }
}
