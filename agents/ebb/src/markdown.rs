//! Pages of Markdown, where their links lead nowhere.

/// `text` with only those links whose target is kept: in place of any other one its name stands.
pub fn without_links(text: &str, keeps: impl Fn(&str) -> bool) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| {
        let Some((target, after)) = part.split_once(')') else { return format!("{before}]({part}") };
        match before.rsplit_once('[') {
            Some((head, name)) if !keeps(target) => {
                format!("{}{name}{after}", head.strip_suffix('!').unwrap_or(head))
            }
            _ => format!("{before}]({target}){after}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_leads_nowhere_is_its_name() {
        let text = "The [window](a/b.html#c) of [slots](d.html): `[]` ![picture](e.png), a](b";
        assert_eq!(without_links(text, |_| true), text);
        assert_eq!(without_links(text, |_| false), "The window of slots: `[]` picture, a](b");
        let kept = without_links(text, |target| target == "d.html");
        assert_eq!(kept, "The window of [slots](d.html): `[]` picture, a](b");
    }
}
