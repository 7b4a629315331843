use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Deserialize;
use ttrpc::r#async::Service;

use crate::graph::Problems;
use crate::*;

/// Records of what happened, in order.
type Diary = Arc<Mutex<Vec<String>>>;

const A: Slot<u32> = Slot::new("k", "a");
const B: Slot<str> = Slot::new("k", "b");
const NUMBERS: Kind<u32> = Kind::new("numbers");

fn note(diary: &Diary, line: impl Into<String>) {
    diary.lock().unwrap().push(line.into());
}

/// Returns a plugin that provides a number, and records its beginning and its end.
fn number(slot: Slot<u32>, diary: &Diary) -> Plugin {
    let diary = Arc::clone(diary);
    Plugin::at(slot).init(move |_, ()| {
        let diary = Arc::clone(&diary);
        async move {
            note(&diary, format!("+{}", slot.uri()));
            Ok(Provided::new(Arc::new(1)).on_shutdown(move || async move { note(&diary, format!("-{}", slot.uri())) }))
        }
    })
}

/// Returns a plugin that needs `A`, with a given initialization.
fn needs_a(init: impl Fn(Arc<u32>) -> Result<Provided<str>, InitError> + Send + Sync + 'static) -> Plugin {
    let init = Arc::new(init);
    Plugin::at(B).asks(A).init(move |_, a| {
        let init = Arc::clone(&init);
        async move { init(a) }
    })
}

async fn load(plugins: impl IntoIterator<Item = Plugin>) -> Result<Loaded, LoadError> {
    load_with(plugins, Configuration::default()).await
}

async fn load_with(
    plugins: impl IntoIterator<Item = Plugin>,
    configuration: Configuration,
) -> Result<Loaded, LoadError> {
    let mut registry = Registry::new();
    registry.extend(plugins);
    registry.load(&configuration, Arc::default()).await
}

fn why(error: &LoadError) -> String {
    plugin::ErrorChain(error).to_string()
}

#[tokio::test]
async fn plugins_get_what_they_ask_for_and_end_in_reverse() {
    let diary = Diary::default();
    let heard = Arc::clone(&diary);
    let b = needs_a(move |a| {
        note(&heard, format!("got {a}"));
        let heard = Arc::clone(&heard);
        Ok(Provided::new(Arc::from("b")).on_shutdown(move || async move { note(&heard, "-b") }))
    });
    let mut loaded = load([b, number(A, &diary)]).await.unwrap();
    loaded.end().await;
    assert_eq!(*diary.lock().unwrap(), ["+k.a", "got 1", "-b", "-k.a"]);
}

#[tokio::test]
async fn g02_an_init_that_fails_panics_or_hangs_fails_the_load_with_the_cause_and_ends_the_others() {
    let ends = [
        (needs_a(|_| Err(InitError::failed("no luck"))), "initialization returned an error: no luck"),
        (needs_a(|_| panic!("oh")), "initialization panicked: oh"),
        (
            Plugin::at(B).asks(A).limit(Duration::from_millis(5)).init(|_, _| std::future::pending()),
            "initialization did not finish within 5ms",
        ),
    ];
    for (plugin, cause) in ends {
        let diary = Diary::default();
        let error = load([number(A, &diary), plugin]).await.err().unwrap();
        assert_eq!(why(&error), format!("could not load plugin k.b: {cause}"));
        assert_eq!(*diary.lock().unwrap(), ["+k.a", "-k.a"]);
    }
}

#[tokio::test]
async fn one_that_is_skipped_is_no_failure_and_leaves_an_optional_place_empty() {
    let skipped = Plugin::at(A).init(|_, ()| async { Err(InitError::skip("no kvm here")) });
    let user = Plugin::at(B).asks(A.optional()).init(|_, a| async move {
        assert!(a.is_none());
        Ok(Provided::new(Arc::from("b")))
    });
    let loaded = load([skipped, user]).await.unwrap();
    assert_eq!(loaded.outcome(&A.uri()).unwrap().to_string(), "skipped: no kvm here");
    assert_eq!(loaded.outcome(&B.uri()).unwrap().to_string(), "ok");
}

#[tokio::test]
async fn one_that_requires_what_was_skipped_fails_and_says_so() {
    let skipped = Plugin::at(A).init(|_, ()| async { Err(InitError::skip("no kvm here")) });
    let error = load([skipped, needs_a(|_| Ok(Provided::new(Arc::from("b"))))]).await.err().unwrap();
    assert_eq!(
        why(&error),
        "could not load plugin k.b: a dependency is missing: k.a was not loaded: skipped: no kvm here"
    );
}

#[tokio::test]
async fn the_shim_goes_on_without_a_plugin_of_best_effort() {
    let failing = Plugin::at(A).best_effort().init(|_, ()| async { Err(InitError::failed("no luck")) });
    let loaded = load([failing, number(Slot::new("k", "c"), &Diary::default())]).await.unwrap();
    assert_eq!(loaded.outcome(&A.uri()).unwrap().to_string(), "failed: initialization returned an error: no luck");
    assert_eq!(loaded.uris().map(Uri::to_string).collect::<Vec<_>>(), ["k.c"]);
}

#[tokio::test]
async fn g03_a_disabled_plugin_that_is_required_is_named_with_who_requires_it() {
    let diary = Diary::default();
    let plugins = [number(A, &diary), needs_a(|_| Ok(Provided::new(Arc::from("b"))))];
    let error = load_with(plugins, Configuration::default().without(&A.uri())).await.err().unwrap();
    assert!(matches!(&error, LoadError::Graph(Problems(problems)) if problems.len() == 1));
    assert!(why(&error).ends_with("k.b requires k.a, which is disabled"), "{error}");
    assert!(diary.lock().unwrap().is_empty(), "something was initialized");
}

#[tokio::test]
async fn all_of_a_kind_come_with_their_ids_and_the_one_must_be_one() {
    let diary = Diary::default();
    let all = || {
        Plugin::at(B).asks(NUMBERS.all()).init(|_, numbers| async move {
            let ids: Vec<_> = numbers.into_iter().map(|(id, _)| id).collect();
            Ok(Provided::new(Arc::from(ids.join(","))).export("ids", ids.join(",")))
        })
    };
    let (x, y) = (NUMBERS.slot("x"), NUMBERS.slot("y"));
    let loaded = load([all(), number(y, &diary), number(x, &diary)]).await.unwrap();
    assert_eq!(loaded.exports().map(|(_, _, value)| value).collect::<Vec<_>>(), ["y,x"]);

    let one = || Plugin::at(B).asks(NUMBERS.one()).init(|_, _| async { Ok(Provided::new(Arc::from("b"))) });
    assert!(load([one(), number(x, &diary)]).await.is_ok());
    let error = load([one(), number(x, &diary), number(y, &diary)]).await.err().unwrap();
    assert!(why(&error).ends_with("expected one plugin of kind numbers, found 2"), "{}", why(&error));
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Settings {
    size: u32,
    name: String,
}

#[tokio::test]
async fn configuration_comes_from_several_places_and_the_last_word_counts() {
    let plugin = || {
        Plugin::at(B).configured::<Settings>().init(|init, ()| async move {
            Ok(Provided::new(Arc::from(format!("{} {}", init.config.name, init.config.size).as_str())))
        })
    };
    let caller: Configuration = "[plugins.\"k.b\"]\nsize = 1\nname = 'caller'".parse().unwrap();
    let file: Configuration = "[plugins.\"k.b\"]\nsize = 2\nunknown = 3".parse().unwrap();
    let text = |loaded: Result<Loaded, LoadError>| loaded.map(|_| ()).map_err(|error| why(&error));
    assert_eq!(text(load_with([plugin()], caller.clone().overridden_by(file)).await), Ok(()));
    let wrong: Configuration = "[plugins.\"k.b\"]\nsize = 'big'".parse().unwrap();
    let error = text(load_with([plugin()], caller.overridden_by(wrong)).await).unwrap_err();
    assert!(error.contains("invalid configuration (line 2): invalid type: string \"big\""), "{error}");
}

#[tokio::test]
async fn a_plugin_of_best_effort_with_a_setting_of_the_wrong_type_has_failed_and_the_shim_goes_on() {
    let taking = |slot| Plugin::at(slot).best_effort().configured::<Settings>();
    let plugins = || {
        let none = Plugin::at(Slot::<u32>::new("k", "c")).best_effort();
        [
            taking(A).init(|_, ()| async { Ok(Provided::new(Arc::new(1))) }),
            none.init(|_, ()| async { Ok(Provided::new(Arc::new(1))) }),
            number(Slot::new("k", "d"), &Diary::default()),
        ]
    };
    let file = std::path::Path::new("/etc/shim.toml");
    let cases = [
        // The wrong setting is named, not the one before it.
        (
            "[plugins.\"k.a\"]\nname = 'x'\nsize = 'big'",
            "k.a",
            "(/etc/shim.toml, line 3): invalid type: string \"big\"",
        ),
        ("\n[plugins]\n\"k.a\".size = 'big'", "k.a", "(/etc/shim.toml, line 3): invalid type: string \"big\""),
        ("\n[plugins]\n\"k.a\" = 'big'", "k.a", "(/etc/shim.toml, line 3): invalid type: string \"big\""),
        ("[plugins]\n\"k.c\" = 5", "k.c", "(/etc/shim.toml, line 2): invalid type: integer `5`"),
    ];
    for (text, wrong, reason) in cases {
        let configuration = Configuration::default().overridden_by(Configuration::parse(text, Some(file)).unwrap());
        // As `start` sends it to the server.
        let sent: Configuration = serde_json::from_slice(&serde_json::to_vec(&configuration).unwrap()).unwrap();
        assert_eq!(sent, configuration);
        let loaded = load_with(plugins(), sent).await.unwrap();
        let outcome = |uri: &str| loaded.outcome(&Uri::new("k", &uri[2..])).unwrap().to_string();
        assert!(outcome(wrong).starts_with(&format!("failed: invalid configuration {reason}")), "{}", outcome(wrong));
        assert!(!outcome(wrong).contains('\n'), "{}", outcome(wrong));
        assert_eq!(outcome("k.d"), "ok");
        assert_eq!(loaded.uris().count(), 2);
    }
    // A value that the author set has no file and line, even if a file had another value before.
    let text = Configuration::parse("[plugins.\"k.a\"]\nsize = 1", Some(file)).unwrap();
    let author = Configuration::default().with(&A.uri(), "size = 'big'".parse().unwrap());
    let loaded = load_with(plugins(), text.overridden_by(author)).await.unwrap();
    let outcome = loaded.outcome(&A.uri()).unwrap().to_string();
    assert!(outcome.starts_with("failed: invalid configuration: invalid type"), "{outcome}");
}

#[test]
fn a_table_is_decoded_and_unknown_keys_are_said() {
    let table: toml::Table = "size = 2\nnmae = 'x'".parse().unwrap();
    let decoded = config::decode::<Settings>(Some(toml::Value::Table(table))).unwrap();
    assert_eq!((decoded.config.size, decoded.unknown_keys), (2, vec!["nmae".to_owned()]));
    assert!("plugin = {}".parse::<Configuration>().is_err(), "a misspelt table is refused");
}

fn serving(slot: Slot<u32>) -> Plugin {
    Plugin::at(slot).init(|_, ()| async {
        let service = Service { methods: HashMap::new(), streams: HashMap::new() };
        Ok(Provided::new(Arc::new(0)).service(HashMap::from([("x.Y".to_owned(), service)])))
    })
}

#[tokio::test]
async fn two_plugins_with_one_service_are_an_error_that_names_both() {
    let error = load([serving(A), serving(Slot::new("k", "c"))]).await.err().unwrap();
    assert_eq!(why(&error), "could not load plugin k.c: service x.Y is already served by k.a");
}

#[tokio::test(start_paused = true)]
async fn an_end_that_hangs_or_panics_does_not_keep_the_others_from_theirs() {
    let diary = Diary::default();
    let bad = Plugin::at(B).init(|_, ()| async {
        let provided = Provided::new(Arc::from("b")).on_shutdown(|| async { panic!("oh") });
        Ok(provided.on_shutdown_within(Duration::from_secs(7), std::future::pending))
    });
    let mut loaded = load([number(A, &diary), bad]).await.unwrap();
    let before = tokio::time::Instant::now();
    let ends: Vec<_> = loaded.end().await.into_iter().map(|(_, end)| end).collect();
    let limit = Duration::from_secs(7);
    assert_eq!(
        ends,
        [EndOutcome::TooSlow { limit }, EndOutcome::Panicked { text: "oh".to_owned() }, EndOutcome::InTime]
    );
    assert_eq!(before.elapsed(), limit);
    assert_eq!(*diary.lock().unwrap(), ["+k.a", "-k.a"]);
}
