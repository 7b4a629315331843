//! Messages as YAML, with the field names of the protocol.

use std::fmt::Write;
use std::sync::LazyLock;

use nri_plugin::proto::{api, descriptor, quote::quoted};
use nri_plugin::{Container, Pod, Resources};
use protobuf::reflect::{FileDescriptor, ReflectFieldRef, ReflectValueRef};
use protobuf::{Message, MessageDyn};
use tracing::info;

/// A message, or several, for the log.
pub(crate) struct Dump {
    messages: Vec<Box<dyn MessageDyn>>,
    is_list: bool,
}

impl Dump {
    pub(crate) fn of(message: impl Message) -> Self {
        Self { messages: vec![described(&message)], is_list: false }
    }

    pub(crate) fn pod(pod: Pod) -> Self {
        Self::of(api::PodSandbox::from(pod))
    }

    pub(crate) fn container(container: Container) -> Self {
        Self::of(api::Container::from(container))
    }

    pub(crate) fn resources(resources: Option<Resources>) -> Self {
        resources.map_or(Self { messages: Vec::new(), is_list: false }, |resources| {
            Self::of(api::LinuxResources::from(resources))
        })
    }

    pub(crate) fn pods(pods: Vec<Pod>) -> Self {
        Self::list(pods.into_iter().map(|pod| described(&api::PodSandbox::from(pod))).collect())
    }

    pub(crate) fn containers(containers: Vec<Container>) -> Self {
        Self::list(containers.into_iter().map(|container| described(&api::Container::from(container))).collect())
    }

    fn list(messages: Vec<Box<dyn MessageDyn>>) -> Self {
        Self { messages, is_list: true }
    }

    fn yaml(&self) -> String {
        let mut text = String::new();
        match (self.messages.is_empty(), self.is_list) {
            (true, true) => text.push_str("[]\n"),
            (true, false) => text.push_str("null\n"),
            (false, _) => {
                for message in &self.messages {
                    write_message(&mut text, &**message, 0, self.is_list);
                }
            }
        }
        text
    }
}

/// Converts a message into one whose field names are known.
fn described(message: &impl Message) -> Box<dyn MessageDyn> {
    // The descriptor never changes, and is expensive to create.
    static FILE: LazyLock<FileDescriptor> = LazyLock::new(descriptor::file);
    descriptor::described(&FILE, message)
}

/// Logs the messages of an event, line by line.
pub(crate) fn dump(event: &str, messages: &[(&str, Dump)]) {
    if messages.is_empty() {
        info!("{event}");
    }
    for (name, message) in messages {
        info!("{event}: {name}:");
        for line in message.yaml().lines() {
            info!("{event}:    {line}");
        }
    }
}

/// Writes the fields that are set, one per line. In an entry of a list, the first field follows a
/// dash.
fn write_message(text: &mut String, message: &dyn MessageDyn, depth: usize, is_entry: bool) {
    let start = text.len();
    for field in message.descriptor_dyn().fields() {
        let (name, inner) = (field.name(), depth + usize::from(is_entry));
        match field.get_reflect(message) {
            ReflectFieldRef::Optional(value) => {
                if let Some(value) = value.value() {
                    write_value(text, name, &value, inner);
                }
            }
            ReflectFieldRef::Repeated(list) if list.is_empty() => {}
            ReflectFieldRef::Repeated(list) => {
                write_line(text, inner, format_args!("{name}:"));
                for value in list {
                    if let ReflectValueRef::Message(entry) = &value {
                        write_message(text, &**entry, inner, true);
                    } else {
                        write_line(text, inner, format_args!("- {}", plain(&value)));
                    }
                }
            }
            ReflectFieldRef::Map(map) if map.is_empty() => {}
            ReflectFieldRef::Map(map) => {
                write_line(text, inner, format_args!("{name}:"));
                let mut entries: Vec<_> = map.into_iter().map(|(key, value)| (plain(&key), value)).collect();
                entries.sort_by(|(one, _), (other, _)| one.cmp(other));
                for (key, value) in entries {
                    write_value(text, &key, &value, inner + 1);
                }
            }
        }
    }
    let indent = 2 * depth;
    match (text.len() == start, is_entry) {
        (true, true) => write_line(text, depth, format_args!("- {{}}")),
        (false, true) => text.replace_range(start + indent..start + indent + 2, "- "),
        (_, false) => {}
    }
}

fn write_value(text: &mut String, name: &str, value: &ReflectValueRef<'_>, depth: usize) {
    let ReflectValueRef::Message(message) = value else {
        write_line(text, depth, format_args!("{name}: {}", plain(value)));
        return;
    };
    let mut inner = String::new();
    write_message(&mut inner, &**message, depth + 1, false);
    let nothing = if inner.is_empty() { " {}" } else { "" };
    write_line(text, depth, format_args!("{name}:{nothing}"));
    text.push_str(&inner);
}

fn write_line(text: &mut String, depth: usize, line: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{:indent$}{line}", "", indent = 2 * depth);
}

fn plain(value: &ReflectValueRef<'_>) -> String {
    if let ReflectValueRef::String(text) = value {
        return if is_plain(text) { (*text).to_owned() } else { quoted(text).to_string() };
    }
    if let ReflectValueRef::Enum(kind, number) = value
        && let Some(named) = kind.value_by_number(*number)
    {
        return named.name().to_owned();
    }
    value.to_string()
}

/// Returns whether YAML reads a text as a string without quotes.
fn is_plain(text: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "/_.,=+:@-".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_')
        && text.chars().all(is_word)
        && !text.ends_with(':')
        && !matches!(text.to_lowercase().as_str(), "true" | "false" | "yes" | "no" | "on" | "off" | "null" | "y" | "n")
}
