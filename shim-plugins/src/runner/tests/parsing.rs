use containerd_shim_protos::bootstrap_api::{BootstrapParams, BootstrapResult};
use containerd_shim_protos::types::introspection::RuntimeInfo;
use proptest::prelude::*;
use protobuf::Message as _;
use protobuf::well_known_types::any::Any;

use super::*;
use crate::testing::{Daemon, FakeContainerd};

fn flags(line: &str) -> Result<Flags, FlagError> {
    Flags::parse(line.split(' ').map(str::to_owned))
}

#[test]
fn flags_are_read_in_gos_manner() {
    let expected = Flags {
        namespace: "ns".to_owned(),
        id: "c1".to_owned(),
        address: "/a=b".to_owned(),
        debug: true,
        words: vec!["start".to_owned(), "-id".to_owned()],
        ..Flags::default()
    };
    assert_eq!(flags("-namespace ns --id=c1 -address=/a=b -debug start -id"), Ok(expected.clone()));
    assert_eq!(flags("-debug=true --namespace ns -id c1 -address /a=b -- start -id"), Ok(expected));
    assert_eq!(flags("-nmespace ns"), Err(FlagError::Unknown("nmespace".to_owned())));
    assert_eq!(flags("start -debug").unwrap().words, ["start", "-debug"]);
    assert_eq!(flags("-id"), Err(FlagError::NoValue("id".to_owned())));
    assert!(matches!(flags("-debug=maybe"), Err(FlagError::NotBoolean { .. })));
}

fn params() -> BootstrapParams {
    BootstrapParams {
        instance_id: "c1".to_owned(),
        namespace: "ns".to_owned(),
        containerd_ttrpc_address: "/c.ttrpc".to_owned(),
        log_level: protobuf::EnumOrUnknown::from_i32(-7),
        ..Default::default()
    }
}

#[test]
fn the_dialects_are_told_apart_by_who_they_are_about() {
    let parse =
        |message: &dyn protobuf::MessageDyn| Bootstrap::parse(&message.write_to_bytes_dyn().unwrap(), "c1", "ns");
    let bootstrap = parse(&params()).unwrap();
    assert_eq!((bootstrap.dialect, bootstrap.debug), (Dialect::Message, true));
    assert_eq!(bootstrap.ttrpc_address.as_deref(), Some("/c.ttrpc"));

    let options = Any { type_url: "runc.Options".to_owned(), value: vec![8, 1], ..Default::default() };
    let bootstrap = parse(&options).unwrap();
    assert_eq!((bootstrap.dialect, bootstrap.extensions), (Dialect::Text, vec![options]));
    assert_eq!(Bootstrap::parse(b"", "c1", "ns").unwrap(), Bootstrap::default());

    let other = BootstrapParams { instance_id: "c2".to_owned(), ..params() };
    let about = BootstrapError::OtherContainer { id: "c2".to_owned(), namespace: "ns".to_owned() };
    assert_eq!(parse(&other), Err(about));
    assert_eq!(Bootstrap::parse(b"\xff\xff", "c1", "ns"), Err(BootstrapError::Unknown));
    assert_eq!(Bootstrap::parse(&vec![0; bootstrap::MAX_INPUT + 1], "c1", "ns"), Err(BootstrapError::TooLong));
}

proptest! {
    #[test]
    fn any_bytes_are_at_most_one_dialect(bytes in proptest::collection::vec(any::<u8>(), 0..64), id in "[a-c]{0,2}") {
        if let Ok(bootstrap) = Bootstrap::parse(&bytes, &id, "ns") {
            prop_assert!(bootstrap.dialect == Dialect::Message || bootstrap.ttrpc_address.is_none());
        }
    }
}

#[test]
fn an_answer_says_which_mounts_the_shim_performs() {
    let mounts = Mounts { types: vec!["ext4".to_owned()], transforms: vec!["format".to_owned()] };
    assert_eq!(Dialect::Text.answer("unix:///x", &mounts), b"unix:///x");
    let answer = Dialect::Message.answer("unix:///x", &mounts);
    let result = BootstrapResult::parse_from_bytes(&answer).unwrap();
    assert_eq!((result.version, result.address.as_str(), result.protocol.as_str()), (3, "unix:///x", "ttrpc"));
    // Field 6 contains field 1, which is a message of any type.
    let name = b"\x0a\x22containerd.types.MountCapabilities\x12\x0e\x0a\x04ext4\x12\x06format";
    let mut expected = vec![6 << 3 | 2, 54, 1 << 3 | 2, 52];
    expected.extend(name);
    assert!(answer.ends_with(&expected), "{answer:?}");
}

#[tokio::test]
async fn it_says_what_it_is() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    let shim = Arc::new(
        shim(&Arc::new(Semaphore::new(0)))
            .mounts(Mounts { types: vec!["ext4".to_owned(), "erofs".to_owned()], transforms: Vec::new() }),
    );
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let version = text(containerd.ask(&shim, &["-v"]).await.unwrap());
    assert_eq!(version, "io.containerd.test.v1:\n  Version:  1.2.3\n  Revision: \n");
    let info = RuntimeInfo::parse_from_bytes(&containerd.ask(&shim, &["-info"]).await.unwrap()).unwrap();
    assert_eq!((info.name.as_str(), info.version.version.as_str()), ("io.containerd.test.v1", "1.2.3"));
    assert_eq!(info.annotations["containerd.io/runtime-allow-mounts"], "ext4,erofs");

    let table = text(containerd.ask(&shim, &["plugins", "ls"]).await.unwrap());
    let last: Vec<Vec<_>> = table.lines().rev().take(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(last[1], ["io.containerd.ttrpc.v1", "task", "io.containerd.event.v1.publisher", "registered"]);
    assert_eq!(last[0], ["io.containerd.internal.v1.shutdown"]);
    assert!(table.lines().all(|line| line.len() <= 100), "{table}");
    for words in [&["--help"][..], &["-h"], &["help"], &["version"], &[], &["-namespace", "ns", "help"]] {
        let usage = text(containerd.ask(&shim, words).await.unwrap());
        assert!(usage.starts_with(&version) && usage.contains("plugins ls"), "{usage}");
    }
    let dot = text(containerd.ask(&shim, &["plugins", "graph"]).await.unwrap());
    assert!(dot.contains("\"io.containerd.ttrpc.v1.task\" -> \"io.containerd.event.v1.publisher\";"), "{dot}");
}

#[tokio::test]
async fn a_command_line_that_makes_no_sense_is_refused() {
    let containerd = FakeContainerd::new(Daemon::V2_3).unwrap();
    for (words, refusal) in [
        (
            &["-namespace", "ns", "dance"][..],
            "unknown action \"dance\": expected start, delete, serve, plugins ls, plugins graph or help",
        ),
        (&["start"], "the namespace of a shim must not be empty"),
        (&["-namespace", "ns", "start"], "the id of a container must not be empty"),
        (&["-namespace", "ns", "-id", "", "delete"], "the id of a container must not be empty"),
        (
            &["-namespace", "ns", "-id", "c1"],
            "could not serve: the action serve is reserved for `start`: standard input is not a listening socket",
        ),
        (&["-x"], "invalid command line: unknown flag -x"),
    ] {
        let error = containerd.ask(&simple(), words).await.unwrap_err();
        assert_eq!(why(&error), refusal);
    }
}
