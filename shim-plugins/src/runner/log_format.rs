//! The lines of the log, in the format of containerd's own log: time, level, message, and fields.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Write as _};
use std::time::{Duration, SystemTime};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::flags::Flags;

/// The longest message, in bytes, so that the line has room for the fields.
const MAX_MESSAGE: usize = 2048;

/// Formats events like logrus, the logger of containerd. Each line names the container.
pub(super) struct LineFormat {
    namespace: String,
    id: String,
}

impl LineFormat {
    /// Creates the format for the container that the flags name.
    pub(super) fn new(flags: &Flags) -> Self {
        Self { namespace: flags.namespace.clone(), id: flags.id.clone() }
    }

    /// Returns the line of an error without fields.
    pub(super) fn error_line(&self, message: &str) -> String {
        format!("{}\n", self.begin("error", message))
    }

    /// Returns what each line begins with.
    fn begin(&self, level: &str, message: &str) -> String {
        let message = value(&message[..message.floor_char_boundary(MAX_MESSAGE)]);
        let (time, id, namespace) = (Rfc3339(SystemTime::now()), value(&self.id), value(&self.namespace));
        format!("time=\"{time}\" level={level} msg={message} id={id} namespace={namespace}")
    }
}

impl<S, N> FormatEvent<S, N> for LineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = EventFields::default();
        event.record(&mut fields);
        let EventFields { message, others } = fields;
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        write!(line, "{}", self.begin(level, &message))?;
        for (name, text) in &others {
            write!(line, " {name}={}", value(text))?;
        }
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            write!(line, " span={}", value(span.name()))?;
            if let Some(fields) = span.extensions().get::<FormattedFields<N>>().filter(|fields| !fields.is_empty()) {
                write!(line, " {fields}")?;
            }
        }
        writeln!(line)
    }
}

/// The message and the other fields of an event, as texts.
#[derive(Default)]
struct EventFields {
    message: String,
    others: BTreeMap<&'static str, String>,
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, text: &str) {
        self.record_debug(field, &format_args!("{text}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let into =
            if field.name() == "message" { &mut self.message } else { self.others.entry(field.name()).or_default() };
        let _ = write!(into, "{value:?}");
    }
}

/// Returns a value as logrus writes it: quoted unless it is a plain word.
fn value(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/@^+".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) { text.to_owned() } else { format!("{text:?}") }
}

/// Formats a time as containerd does, in UTC.
struct Rfc3339(SystemTime);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: u64 = 24 * 60 * 60;
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (days, seconds) = (since.as_secs() / DAY, since.as_secs() % DAY);
        let (year, month, day) = date(days);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:09}Z", since.subsec_nanos())
    }
}

/// Returns year, month and day, given the days since 1970.
fn date(mut days: u64) -> (u64, usize, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use tracing::{debug, info, info_span, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines without their times.
    fn logged(log: impl FnOnce()) -> Vec<String> {
        let lines = Lines::default();
        let writer = lines.clone();
        let format = LineFormat { namespace: "k8s.io".to_owned(), id: "c 1".to_owned() };
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_max_level(Level::DEBUG);
        let subscriber = subscriber.with_writer(move || writer.clone()).event_format(format).finish();
        tracing::subscriber::with_default(subscriber, log);
        let text = String::from_utf8(lines.0.lock().clone()).unwrap();
        let without_time = |line: &str| {
            let (time, rest) = line.strip_prefix("time=\"").unwrap().split_once("\" ").unwrap();
            assert_eq!((time.len(), &time[10..11], &time[29..]), (30, "T", "Z"), "{time}");
            rest.to_owned()
        };
        text.lines().map(without_time).collect()
    }

    #[test]
    fn each_line_is_in_the_format_of_containerd_and_names_the_container() {
        let lines = logged(|| {
            info!(plugins = 7, "serving");
            warn!(path = "/run/x", error = %"no \"luck\"\nat all", "could not remove socket");
            let _span = info_span!("exec", pid = 4).entered();
            debug!("{}", "ä".repeat(MAX_MESSAGE));
        });
        assert_eq!(lines[0], "level=info msg=serving id=\"c 1\" namespace=k8s.io plugins=7");
        let expected = "level=warning msg=\"could not remove socket\" id=\"c 1\" namespace=k8s.io \
                        error=\"no \\\"luck\\\"\\nat all\" path=/run/x";
        assert_eq!(lines[1], expected);
        assert!(lines[2].starts_with("level=debug msg=\"ää"), "{}", lines[2]);
        assert!(lines[2].ends_with("ää\" id=\"c 1\" namespace=k8s.io span=exec pid=4"), "{}", lines[2]);
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        // Computed with `date`.
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000000007Z"),
            (951_782_400, "2000-02-29T00:00:00.000000007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.000000007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000000007Z"),
        ] {
            assert_eq!(Rfc3339(SystemTime::UNIX_EPOCH + Duration::new(seconds, 7)).to_string(), expected);
        }
    }
}
