//! Compares how texts are parsed and refused.

use std::error::Error;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::Command;

use nri_proto::quote::quoted;
use nri_proto::{EventMask, PluginId, version};
use nri_tests::go;

#[test]
fn event_masks_are_read_and_printed_as_go_does() -> anyhow::Result<()> {
    let words: Vec<&str> =
        "all|ALL| all|pod|PodSandbox|pod |container|containers|| |nap|n\tap|é|CreateContainer| stopcontainer\u{a0}|\
         run podsandbox|0x1|\"|unknown(0x4000)|LAST"
            .split('|')
            .collect();
    let pairs = words.iter().flat_map(|a| words.iter().map(move |b| format!("{a},{b}")));
    let events = nri_proto::Event::ALL.iter().map(ToString::to_string);
    let texts: Vec<String> = words.iter().map(|word| (*word).to_owned()).chain(pairs).chain(events).collect();

    check(&questions("mask", &texts), |text| {
        let mask = text[0].parse::<EventMask>();
        answer(mask.map(|mask| format!("{} {mask}", mask.to_wire().unwrap_or(0))))
    })
}

#[test]
fn plugin_ids_are_read_and_refused_as_go_does() -> anyhow::Result<()> {
    let indices = ["", "1", "10", "00", "99", "100", "1a", "a1", "+1", "é", " 1", "１０", "\0\0", "1\n"];
    let names =
        ["", "a", "-", "..", "a-b", "A.b_c+d", "a b", "a/b", "é", "\u{301}", "a\0", "a\"'\\", "\u{1f600}", "日本"];
    let mut asked = vec![];
    for index in indices {
        for name in names {
            asked.push(vec!["id".to_owned(), format!("{index}-{name}")]);
            asked.push(vec!["id".to_owned(), format!("{index}{name}")]);
            asked.push(vec!["registration".to_owned(), index.to_owned(), name.to_owned()]);
        }
    }

    check(&asked, |text| {
        let id = match text {
            [text] => text.parse::<PluginId>(),
            [index, name] => PluginId::new(index, name),
            _ => panic!("{text:?}"),
        };
        answer(id.map(|id| format!("{} {}", id.index(), id.name())))
    })
}

#[test]
fn the_nri_version_of_a_runtime_is_inferred_as_go_does() -> anyhow::Result<()> {
    let suffixes = "|-rc.1|-0|-5-gabc|-5-gabc.m|-5-gxyz|-gabc|+b|+b+c|-5-gabc+b|.1|-|-01|-18446744073709551615-g0|\
                    -18446744073709551616-g0|-1-gffffffffffffffff|-1-g10000000000000000";
    let mut asked = vec![];
    let mut ask = |runtime: &str, version: String| {
        asked.push(vec!["version".to_owned(), runtime.to_owned(), version]);
    };
    let runtimes = [("containerd", 1..=2, 0..=7), ("cri-o", 1..=1, 25..=36), ("docker", 1..=1, 0..=0)];
    for (runtime, majors, minors) in runtimes {
        for (major, minor) in majors.flat_map(|major| minors.clone().map(move |minor| (major, minor))) {
            ask(runtime, format!("{major}.{minor}"));
            ask(runtime, format!("v{major}"));
            ask(runtime, format!("v{major}.{minor}"));
            for patch in 0..=32 {
                for suffix in suffixes.split('|') {
                    ask(runtime, format!("v{major}.{minor}.{patch}{suffix}"));
                }
            }
        }
        ask(runtime, String::new());
        ask(runtime, "v99999999999999999999".to_owned());
        ask(runtime, "v01.7.0".to_owned());
    }

    check(&asked, |text| answer(version::of_runtime(&text[0], &text[1]).map(str::to_owned)))
}

#[test]
fn text_is_quoted_as_go_does() -> anyhow::Result<()> {
    // For later characters, the two sides use different versions of Unicode.
    let old = '\0'..='\u{86f}';
    let apart = ['\u{2028}', '\u{3000}', '\u{d7ff}', '\u{e000}', '\u{feff}', '\u{fffd}', '\u{1f600}', '\u{10ffff}'];
    let texts: Vec<String> = old.chain(apart).map(|c| format!("a{c}\"'\\")).collect();
    check(&questions("quote", &texts), |text| quoted(&text[0]).to_string())
}

pub(crate) fn questions(about: &str, texts: &[String]) -> Vec<Vec<String>> {
    texts.iter().map(|text| vec![about.to_owned(), text.clone()]).collect()
}

fn answer(result: Result<String, impl Error>) -> String {
    result.unwrap_or_else(|error| format!("error: {error}"))
}

/// Compares the results of `ours` with Go's answers. `ours` gets each question without its first
/// word.
fn check(questions: &[Vec<String>], ours: impl Fn(&[String]) -> String) -> anyhow::Result<()> {
    let Ok(oracle) = go::program("oracle") else { return Ok(()) };
    let answers = ask(&oracle, questions)?;
    assert_eq!(answers.len(), questions.len());
    let wrong = questions.iter().zip(&answers).filter_map(|(question, theirs)| {
        let ours = ours(&question[1..]);
        (ours != *theirs).then(|| format!("{question:?}\n  Go:   {theirs}\n  ours: {ours}\n"))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{} differ, as:\n{}", wrong.len(), wrong[..wrong.len().min(20)].concat());
    Ok(())
}

/// Sends questions to the Go program.
pub(crate) fn ask(oracle: &Path, questions: &[Vec<String>]) -> anyhow::Result<Vec<String>> {
    let mut input = tempfile::tempfile()?;
    for question in questions {
        writeln!(input, "{}", serde_json::to_string(question)?)?;
    }
    input.rewind()?;
    let output = Command::new(oracle).stdin(input).output()?;
    anyhow::ensure!(output.status.success(), "{output:?}");
    Ok(serde_json::Deserializer::from_slice(&output.stdout).into_iter().collect::<Result<_, _>>()?)
}
