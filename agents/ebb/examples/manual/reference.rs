//! The reference: what the program and the types of the topics say of themselves.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Command;
use serde_json::Value;

const SCHEMAS: &str = "schemas/json";

/// Columns of a help: those of a code block of the site.
const WIDTH: usize = 96;

/// Each page of docs/reference with its name, without the pages of the source that are a reference as they are.
pub(crate) fn pages() -> Result<[(&'static str, String); 3]> {
    Ok([
        ("ebb", verbs("`ebb`: every verb", ebb::definition())?),
        ("kubectl-ebb", verbs("`kubectl ebb`: every verb", kubectl_ebb::cli::definition())?),
        ("topics", topics()?),
    ])
}

/// The help of each verb, as the program prints it.
fn verbs(title: &str, definition: Command) -> Result<String> {
    let mut program = definition.term_width(WIDTH);
    program.build();
    let mut page = format!("# {title}\n\nAs `--help` prints it.\n");
    helps(&mut program, &mut page)?;
    Ok(page)
}

fn helps(command: &mut Command, page: &mut String) -> Result<()> {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.render_long_help();
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.to_string().trim_end())?;
    for verb in command.get_subcommands_mut().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
    {
        helps(verb, page)?;
    }
    Ok(())
}

/// Every topic and file with its fields, and the types of those.
fn topics() -> Result<String> {
    let mut page = "# Topics: every field\n\n\
        What agents publish and what they read, as JSON. [Topics](../../docs/topics.md) says where each is, who may write it, and how to read it; \
        the JSON Schemas are in `schemas/json` of the source. Types that begin with a capital are [below](#types). A time is in RFC 3339; \
        `0001-01-01T00:00:00Z` is \"not set\".\n"
        .to_owned();
    let mut files: Vec<_> = fs::read_dir(SCHEMAS)?.map(|file| Ok(file?.path())).collect::<Result<_>>()?;
    files.sort();
    let mut types = BTreeMap::new();
    for file in files {
        let mut schema: Value = serde_json::from_slice(&fs::read(&file)?)?;
        if let Some(Value::Object(own)) = schema.get_mut("$defs").map(Value::take) {
            for (name, definition) in own {
                if types.insert(name.clone(), definition.clone()).is_some_and(|other| other != definition) {
                    bail!("{}: {name} is another type elsewhere", file.display());
                }
            }
        }
        let title = schema
            .get("title")
            .and_then(Value::as_str)
            .with_context(|| format!("{} has no title", file.display()))?;
        write!(page, "\n## {title}\n\n{}\n", definition(&schema)?)?;
    }
    page.push_str("\n# Types\n");
    for (name, schema) in &types {
        write!(page, "\n## {name}\n\n{}\n", definition(schema)?)?;
    }
    Ok(page)
}

/// What a type is, and a table of its fields or values.
fn definition(schema: &Value) -> Result<String> {
    let mut text = meaning(schema);
    if let Some(fields) = schema["properties"].as_object() {
        text.push_str("\n\n| field | type | meaning |\n|---|---|---|\n");
        for (name, field) in fields {
            writeln!(text, "| `{name}` | {} | {} |", kind(field), cell(field))?;
        }
    } else if let Some(values) = schema["oneOf"].as_array() {
        text.push_str("\n\n| value | meaning |\n|---|---|\n");
        for value in values {
            writeln!(text, "| `{}` | {} |", value["const"], cell(value))?;
        }
    }
    Ok(text)
}

/// The type of a field, in words.
fn kind(schema: &Value) -> String {
    let of = |key: &str| kind(&schema[key]);
    if let Some(name) = schema["$ref"].as_str().and_then(|place| Path::new(place).file_name()?.to_str()) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => "number".to_owned(),
        Some("string") => "text".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("array") => format!("list of {}", of("items")),
        Some("object") if schema["additionalProperties"].is_object() => {
            format!("for each text: {}", of("additionalProperties"))
        }
        Some(other) => other.to_owned(),
        None => "anything".to_owned(),
    }
}

/// The description, with the names of Rust's items as they are.
fn meaning(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.replace("[`crate::", "`").replace("[`", "`").replace("`]", "`")
}

/// The description for a table.
fn cell(schema: &Value) -> String {
    meaning(schema).replace("\n\n", "<br>").replace('\n', " ").replace('|', "\\|")
}
