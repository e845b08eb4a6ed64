//! Tests of `[[rule]]` in files: accepted and refused rules, and the rules in effect after a mistake.

use super::*;

const DROP_IN: &str = "etc/ebb/ebb.d/10-ours.toml";

fn names(loaded: &Loaded) -> Vec<&str> {
    loaded.settings.policy.drain.rules.iter().map(|rule| rule.name.as_str()).collect()
}

/// The rules, with paths relative to the root.
fn shown(device: &Device, loaded: &Loaded) -> Vec<String> {
    let root = format!("{}/", device.folder.path().display());
    loaded.shown_rules().iter().map(|rule| rule.to_string().replace(&root, "")).collect()
}

/// Rules of later layers do not replace earlier ones: the first match counts.
#[test]
fn all_files_count_in_their_order() {
    let rule = |name: &str| format!("[[rule]]\nname = \"{name}\"\n");
    let mut device = Device::new()
        .with("last.toml", &rule("f"))
        .config("last.toml")
        .with("etc/ebb/ebb.d/20-b.toml", &rule("e"))
        .with("etc/ebb/ebb.d/10-a.toml", &rule("d"))
        .with(MAIN, &rule("c"))
        .with(VENDOR, &(rule("b") + &rule("a")));
    let loaded = device.load();
    assert_eq!(loaded.problems, []);
    assert_eq!(names(&loaded), ["b", "a", "c", "d", "e", "f"]);
    assert_eq!(loaded.rule_origins["a"], Origin::File { path: device.path(VENDOR), line: Some(3) });

    device = device.with(DROP_IN, "rule = [{ name = \"x\" }, { name = \"y\", order = 1 }]");
    assert_eq!(names(&device.load()), ["b", "a", "c", "d", "x", "y", "e", "f"], "another notation");
}

/// Half a rule would be a different rule: a rule that skips would skip every pod without its selector.
#[test]
fn a_bad_rule_is_left_out_as_a_whole() {
    let text = "[[rule]]\nname = \"one\"\n[[rule]]\nname = \"two\"\nselector = \"app=db cache\"\nbehaviour = \"skpi\"\n\
                [[rule]]\nname = \"three\"\nselectro = \"app=db\"\nbehaviour = \"skip\"\n\
                [[rule]]\nselector = \"app=db\"\n[[rule]]\nname = \"five\"\n[rule.grace]\nseconds = 1";
    let device = Device::new().with(MAIN, text);
    let loaded = device.load();
    assert_eq!(names(&loaded), ["one"]);
    let words = [
        "5: rule.selector = \"app=db cache\" is not accepted; accepted: a label selector as for `kubectl -l`, such as \
         `app in (db, web), !canary` (cannot read the label selector: at character 8: `cache` cannot stand here; \
         accepted: `,` or the end); `-` for none",
        "6: rule.behaviour = \"skpi\" is not accepted; accepted: `drain`, `skip`, `wait-completed`",
        "9: rule.selectro = \"app=db\" is not accepted; accepted: name, selector, namespace, owner-kind, behaviour, \
         order, grace",
        "11: rule.name = nothing is not accepted; accepted: a text of 1 to 63 characters",
        "15: rule.grace = a table with 1 entries is not accepted; accepted: a duration such as `90s`, from 1s to 1d; \
         `-` for none",
    ];
    let words = words.map(|words| format!("{MAIN}:{words}; in effect: of this file the rules `one`"));
    assert_eq!(device.told(&loaded), words);
}

/// A node with such a rule would count as drained with every pod on it.
#[test]
fn a_rule_that_keeps_every_pod_is_refused() {
    for (condition, is_taken) in [
        ("", false),
        ("selector = \"\"\n", false),
        ("selector = \"app=db\"\n", true),
        ("namespace = \"shop\"\n", true),
        ("owner-kind = \"Job\"\n", true),
    ] {
        let text = format!("[[rule]]\nname = \"a\"\nbehaviour = \"skip\"\n{condition}");
        let loaded = Device::new().with(MAIN, &text).load();
        assert_eq!(!names(&loaded).is_empty(), is_taken, "{condition}");
        assert_eq!(loaded.problems.is_empty(), is_taken, "{condition}");
    }
}

#[test]
fn a_name_is_taken_once() {
    let rule = |name: &str, order: usize| format!("[[rule]]\nname = \"{name}\"\norder = {order}\n");
    let device = Device::new()
        .with(VENDOR, &(rule("a", 1) + &rule("b", 2) + &rule("a", 3)))
        .with(MAIN, &(rule("c", 4) + &rule("b", 5)));
    let loaded = device.load();
    assert_eq!(
        loaded.settings.policy.drain.rules.iter().map(|rule| rule.order).collect::<Vec<_>>(),
        [1, 2, 4]
    );
    assert_eq!(
        device.told(&loaded),
        [
            format!(
                "{VENDOR}:7: rule.name = \"a\" is not accepted; accepted: a name that no other rule has; the rule at \
                 {VENDOR}:1 has this one; in effect: of this file the rules `a`, `b`"
            ),
            format!(
                "{MAIN}:4: rule.name = \"b\" is not accepted; accepted: a name that no other rule has; the rule at \
                 {VENDOR}:4 has this one; in effect: of this file the rules `c`"
            ),
        ]
    );
}

#[test]
fn there_is_a_limit_to_rules_and_to_problems() {
    let rule = |n: usize| format!("[[rule]]\nname = \"r{n}\"\n");
    let rules = |from: usize, to: usize| (from..to).map(rule).collect::<Vec<_>>().concat();
    let device = Device::new().with(VENDOR, &rules(0, 60)).with(MAIN, &rules(60, 102));
    let loaded = device.load();
    assert_eq!(loaded.settings.policy.drain.rules.len(), 100);
    assert_eq!(names(&loaded).last(), Some(&"r99"));
    let told = device.told(&loaded);
    assert_eq!(told.len(), 2);
    assert!(
        told[0].starts_with(
            "etc/ebb/ebb.toml:81: rule = \"r100\" is not accepted; accepted: at most 100 rules in all files together"
        ),
        "{}",
        told[0]
    );
    assert!(told[0].ends_with("in effect: of this file 40 rules"), "{}", told[0]);
    assert_eq!(device.reload(&loaded), loaded);
    assert_eq!(Device::new().with(MAIN, &"[[rule]]\n".repeat(5000)).load().problems.len(), MOST_PROBLEMS);
}

#[test]
fn what_is_no_rule_is_told() {
    let two_brackets = "a table below `[[rule]]`, with two brackets; in effect: no rule of this file";
    let in_a_file = "rules as `[[rule]]` in a file, each with its keys below it";
    for (text, problem) in [
        ("[rule]", None),
        ("rule = []", None),
        ("[rule]\nname = \"x\"", Some(("1: rule = a table with 1 entries", two_brackets))),
        ("rule = 5", Some(("1: rule = 5", two_brackets))),
        ("rule = [{ name = \"a\" }, \"b\"]", Some(("1: rule = \"b\"", "a table below"))),
        ("rule.name = \"x\"", Some(("1: rule = a table with 1 entries", two_brackets))),
        ("\"rule.name\" = \"x\"", Some(("1: rule.name = \"x\"", in_a_file))),
        ("[[drain.rule]]\nname = \"x\"", Some(("1: drain.rule = [a table with 1 entries]", in_a_file))),
        ("[\"\"]\nrule = 5", Some(("2: .rule = 5", in_a_file))),
        ("[[rule]]\n\"\" = 1\nname = \"x\"", Some(("2: rule. = 1", "name, selector"))),
        ("[[rule]]\nname = nan", Some(("2: rule.name = nan", "a text of 1 to 63"))),
    ] {
        let device = Device::new().with(MAIN, text);
        let told = device.told(&device.load());
        assert_eq!(told.len(), usize::from(problem.is_some()), "{text}: {told:?}");
        if let Some((written, accepted)) = problem {
            let start = format!("{MAIN}:{written} is not accepted; accepted: {accepted}");
            assert!(told[0].starts_with(&start), "{text}: {told:?}");
        }
    }
    let loaded = Device::new().set("rule", "[{ name = \"x\" }]").set("rule.name", "x").load();
    assert_eq!((loaded.bad_flags().len(), loaded.settings.policy.drain.rules.len()), (2, 0));
}

#[test]
fn a_bad_live_change_keeps_the_rules_of_its_file() {
    let device = Device::new()
        .with(MAIN, "[[rule]]\nname = \"a\"\n[[rule]]\nname = \"b\"\nselector = \"app=db\"")
        .with(DROP_IN, "[[rule]]\nname = \"c\"");
    let first = device.load();
    assert_eq!(names(&first), ["a", "b", "c"]);

    device.write(MAIN, "[[rule]]\nname = \"b\"\nselector = \"app=\\u0000\"\n[[rule]]\nname = \"d\"");
    device.write(DROP_IN, "[[rule]]\nname = \"e\"");
    let second = device.reload(&first);
    assert_eq!(names(&second), ["a", "b", "e"], "all of the bad file as before, and what is good elsewhere");
    assert_eq!(second.settings.policy.drain.rules[..2], first.settings.policy.drain.rules[..2]);
    assert!(device.told(&second)[0].ends_with("in effect: of this file the rules `a`, `b`"));
    assert_eq!(device.reload(&second), second);

    device.write(MAIN, "[[rule");
    let third = device.reload(&second);
    assert_eq!(names(&third), ["a", "b", "e"], "an unusable file");

    device.write(DROP_IN, "[[rule]]\nname = \"b\"");
    assert_eq!(names(&device.reload(&third)), ["a", "b", "e"], "a name that is taken");

    device.write(MAIN, "# nothing");
    let last = device.reload(&third);
    assert_eq!((names(&last), last.problems.len()), (vec!["b"], 0));
    assert_eq!(last.settings.policy.drain.rules[0].selector, None);
}

#[test]
fn a_bad_rule_at_the_start_changes_nothing_later() {
    let device = Device::new()
        .with(MAIN, "[[rule]]\nname = \"a\"\n[[rule]]\nname = \"b\"\norder = true\n[[rule]]\nname = \"c\"");
    let first = device.load();
    assert_eq!(names(&first), ["a", "c"]);
    assert_eq!(device.reload(&first), first);
}

/// The example of `docs/settings.md`.
#[test]
fn the_documentations_example_is_accepted() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
    let page = fs::read_to_string(page).unwrap();
    let chapter = page.split_once("## Rules for single pods").unwrap().1;
    let example = chapter.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0;
    let device = Device::new().with("example.toml", example).config("example.toml");
    let loaded = device.load();
    assert_eq!(loaded.problems, []);
    assert_eq!(
        shown(&device, &loaded),
        [
            "nightly report (example.toml:1): namespace = reports, owner-kind = Job, behaviour = wait-completed, \
             order = 0",
            "databases last (example.toml:7): selector = app in (db,queue), owner-kind = StatefulSet, \
             behaviour = drain, order = 10, grace = 2m",
        ]
    );
}
