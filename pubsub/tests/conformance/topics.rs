//! Topics that only these tests use.

use schemas::{DrainRequester, DrainStatus, NodeDrainStatus, Topic};
use serde::{Deserialize, Serialize};

/// EVE's status; most tests use it.
pub(crate) const STATUS: &str = "NodeDrainStatus";

/// The status with this code.
pub(crate) fn status(code: u8) -> NodeDrainStatus {
    let status = DrainStatus::ALL.into_iter().find(|status| status.code() == code).unwrap();
    NodeDrainStatus { status, requested_by: DrainRequester::DeviceOp }
}

/// The status as EVE writes it.
pub(crate) fn status_json(code: u8) -> String {
    format!(r#"{{"Status":{code},"RequestedBy":2}}"#)
}

/// A topic with a list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(crate) struct Note {
    pub(crate) text: String,
    pub(crate) tags: Vec<String>,
}

impl Topic for Note {
    const NAME: &'static str = "Note";
}

/// Topics whose names differ by one byte in length, because base64 changes the length of a message in steps of four.
macro_rules! text_topics {
    ($($name:ident)*) => {$(
        #[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
        #[serde(rename_all = "PascalCase", default)]
        pub(crate) struct $name {
            pub(crate) text: String,
        }

        impl Topic for $name {
            const NAME: &'static str = stringify!($name);
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self { text }
            }
        }
    )*};
}

text_topics!(Text Texts Texted);

/// The text whose update, under the key `global`, has this many bytes; `None` if no text gives this length.
pub(crate) fn text_of_message<T: Topic>(length: usize) -> Option<String> {
    let base64 = length - "update ".len() - T::NAME.len() - " Z2xvYmFs ".len();
    let json = base64 / 4 * 3;
    base64.is_multiple_of(4).then(|| "x".repeat(json - r#"{"Text":""}"#.len()))
}
