//! Texts that are accepted and texts that are refused. The tables were compared with apimachinery's own `labels.Parse`.

use proptest::prelude::*;

use super::*;

/// Compares the canonical form of the text, or the position and reason of its refusal.
fn check(text: &str, expected: &str) {
    let shown = match text.parse::<Selector>() {
        Ok(selector) => selector.to_string(),
        Err(error) => format!("{}: {}", error.at, error.wrong),
    };
    assert_eq!(shown, expected, "{text:?}");
}

#[test]
fn accepted() {
    for (text, canonical) in [
        ("", ""),
        (" \t\r\n", ""),
        ("a=b", "a=b"),
        ("a==b", "a=b"),
        ("a = b", "a=b"),
        ("\ta\n=\rb ", "a=b"),
        ("a!=b", "a!=b"),
        ("a", "a"),
        ("!a", "!a"),
        ("! a", "!a"),
        ("a=", "a="),
        ("a==", "a="),
        ("a!=", "a!="),
        ("a=,b", "a=,b"),
        ("a in (x,y)", "a in (x,y)"),
        ("a in(x)", "a=x"),
        ("a notin (x)", "a!=x"),
        ("a notin ( x , y )", "a notin (x,y)"),
        ("a in ()", "a="),
        ("a in (,)", "a="),
        ("a in (,,)", "a="),
        ("a in (x,)", "a in (,x)"),
        ("a in (,x)", "a in (,x)"),
        ("a in (x,,y)", "a in (,x,y)"),
        ("a in (y,x,y)", "a in (x,y)"),
        ("a notin ()", "a!="),
        ("a>1", "a>1"),
        ("a < 10", "a<10"),
        ("a>007", "a>7"),
        ("a>9223372036854775807", "a>9223372036854775807"),
        ("b,a", "a,b"),
        ("a=b,a=c", "a=b,a=c"),
        ("a in (x,y),b!=c,!d,e", "a in (x,y),b!=c,!d,e"),
        ("in", "in"),
        ("notin", "notin"),
        ("!in", "!in"),
        ("in in (in)", "in=in"),
        ("notin notin (notin,in)", "notin notin (in,notin)"),
        ("a=in", "a=in"),
        ("in=notin", "in=notin"),
        ("example.com/App.Name_1=B-2_c.D", "example.com/App.Name_1=B-2_c.D"),
        ("a=1.5", "a=1.5"),
    ] {
        check(text, canonical);
    }
}

#[test]
fn refused_for_their_places() {
    for (text, problem) in [
        (",", "1: `,` cannot stand here"),
        ("a,", "3: it ends here"),
        (",a", "1: `,` cannot stand here"),
        ("a,,b", "3: `,` cannot stand here"),
        ("a b", "3: `b` cannot stand here"),
        ("a=b c", "5: `c` cannot stand here"),
        ("a=b=c", "4: `=` cannot stand here"),
        ("a===b", "4: `=` cannot stand here"),
        ("a=!b", "3: `!` cannot stand here"),
        ("a=(b)", "3: `(` cannot stand here"),
        ("a in x", "6: `x` cannot stand here"),
        ("a in", "5: it ends here"),
        ("a in (", "7: it ends here"),
        ("a in (x", "8: it ends here"),
        ("a in (x,", "9: it ends here"),
        ("a in (x y)", "9: `y` cannot stand here"),
        ("a in (x=y)", "8: `=` cannot stand here"),
        ("a in ((x))", "7: `(` cannot stand here"),
        ("a in (x))", "9: `)` cannot stand here"),
        ("a In (x)", "3: `In` cannot stand here"),
        ("!", "2: it ends here"),
        ("!!a", "2: `!` cannot stand here"),
        ("a!", "2: `!` cannot stand here"),
        ("!a=b", "3: `=` cannot stand here"),
        ("!a in (x)", "4: `in` cannot stand here"),
        ("=b", "1: `=` cannot stand here"),
        ("(a)", "1: `(` cannot stand here"),
        ("a)", "2: `)` cannot stand here"),
        ("a>", "3: it ends here"),
        ("a>,b", "3: `,` cannot stand here"),
        ("a>x", "3: `x` cannot stand here"),
        ("a>-1", "3: `-1` cannot stand here"),
        ("a>+1", "3: `+1` cannot stand here"),
        ("a>1.5", "3: `1.5` cannot stand here"),
        ("a>=1", "3: `=` cannot stand here"),
        ("a>0x1", "3: `0x1` cannot stand here"),
        ("a>1_000", "3: `1_000` cannot stand here"),
        ("a>9223372036854775808", "3: `9223372036854775808` cannot stand here"),
    ] {
        check(text, problem);
    }
}

#[test]
fn refused_for_their_letters() {
    let (long, unicode) = ("a".repeat(64), "ä".repeat(65));
    for (text, problem) in [
        ("-a=b", "1: `-a` cannot stand here"),
        ("a/b/c=d", "1: `a/b/c` cannot stand here"),
        ("A.com/b=c", "1: `A.com/b` cannot stand here"),
        ("a=-b", "3: `-b` cannot stand here"),
        ("a=b/c", "3: `b/c` cannot stand here"),
        ("a='b'", "3: `'b'` cannot stand here"),
        ("a=\"b\"", "3: `\"b\"` cannot stand here"),
        ("a in (x,y z)", "11: `z` cannot stand here"),
        ("a in (x,-y)", "9: `-y` cannot stand here"),
        ("ä=b", "1: `ä` cannot stand here"),
        ("a=ä,", "3: `ä` cannot stand here"),
        ("a=b,ö c", "5: `ö` cannot stand here"),
        // In apimachinery a NUL hides the text behind it, or itself.
        ("a\0", "1: `a\\0` cannot stand here"),
        ("a=\0b", "3: `\\0b` cannot stand here"),
        ("a\0\0,b=c", "1: `a\\0\\0` cannot stand here"),
        // Apimachinery does not count these as blanks either.
        ("a\u{a0}=b", "1: `a\\u{a0}` cannot stand here"),
        ("a\u{b}", "1: `a\\u{b}` cannot stand here"),
        (&long, &format!("1: `{long}` cannot stand here")),
        (&unicode, &format!("1: `{}…` cannot stand here", "ä".repeat(64))),
    ] {
        check(text, problem);
    }
}

#[test]
fn an_error_says_where_and_what_is_accepted() {
    let message = |text: &str| text.parse::<Selector>().unwrap_err().to_string();
    for (text, expected) in [
        (
            "a=b c",
            "cannot read the label selector: at character 5: `c` cannot stand here; accepted: `,` or the end",
        ),
        (
            "ä b",
            "cannot read the label selector: at character 1: `ä` cannot stand here; accepted: a label's name: at most \
             63 of letters, digits, `-`, `_`, `.`, the first and the last a letter or digit; before it, if wanted, a \
             DNS name and `/`",
        ),
        (
            "a>x",
            "cannot read the label selector: at character 3: `x` cannot stand here; accepted: a whole number from 0 to \
             9223372036854775807",
        ),
    ] {
        assert_eq!(message(text), expected);
    }
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_within_it(text in ".*") {
        if let Err(error) = text.parse::<Selector>() {
            prop_assert!((1..=text.chars().count() + 1).contains(&error.at));
        }
    }

    /// Built from the parts of selectors, because far more of these texts are accepted.
    #[test]
    fn what_is_accepted_reads_back(text in "([ab1] ?|in |notin |[=!<>(),] ?){0,9}") {
        match text.parse::<Selector>() {
            Ok(selector) => prop_assert_eq!(selector.to_string().parse(), Ok(selector)),
            Err(error) => prop_assert!((1..=text.chars().count() + 1).contains(&error.at)),
        }
    }
}
