//! The annotation with which a pod requires plugins: a YAML list, as Go's default validator reads
//! it.

use nri_adaptation::config::DefaultValidator;
use nri_proto::{Pod, Proposal};
use nri_tests::go;

use crate::texts::{ask, questions};

/// Texts that both sides read alike, grouped by their unusual part.
const ALIKE: &[&[&str]] = &[
    // Lists between brackets.
    &[
        "[]",
        "[a, b]",
        "[a,b,]",
        "[a b, 'c d', \"e f\"]",
        "[a",
        "a]",
        "[a] b",
        "[a],",
        "[a,,b]",
        "[,]",
        "[a\n]",
        "[a\n b]",
    ],
    &[
        "[\na\n,\nb\n]",
        "[\n- a]",
        "[- a]",
        "[-a]",
        "[a}",
        "{a]",
        "[a:b]",
        "[a :b]",
        "[a|b]",
        "[a&b]",
        "[a*b]",
        "[a!b]",
        "[=]",
    ],
    // Lists with dashes.
    &[
        "- a",
        "- a\n- b\n",
        "- a\n -b",
        " - a\n - b",
        "- a\n  - b",
        "  - a\n- b",
        "-a",
        "-",
        "-\n-",
        "- \n- a",
        "- a\nb",
    ],
    &[
        "-  a",
        "- \n  a",
        "-\n  a",
        "-\na",
        "- a\n\n\n- b",
        "\n\n- a",
        "- a\n  b\n  c",
        "- -",
        "- =",
        "- a, b",
        "- ,",
        "- ]",
    ],
    // Texts that are not a list of names.
    &[
        "a", "'a'", "1", "true", "{}", "{a: b}", "a: b", "a: [b]", "- a: b", "- - a", "[[a]]", "[[]]", "[{}]", "- a:",
        "? a",
    ],
    &[
        "[a: b]",
        "[? a]",
        "[: a]",
        "- {",
        "- [a",
        "[\"a\": b]",
        "[\"a\" \"b\"]",
        "['a'b]",
        "- 'a' b",
        "- @a",
        "- `a",
        "[@a]",
    ],
    // Nothing.
    &["", " ", "\n", "null", "~", "Null", "NULL", "[null, ~, a, 'null', \"~\", '']", "- ''", "- null", "\"\"", "''"],
    // Numbers and the like.
    &["[1, 01, 0x1f, 0o7, 0b1, 1_000, 1.50, .5, 1e3, +1, -1, .inf, -.INF, .nan, yes, True, 2001-12-14, 12:30:45, <<]"],
    // Quotes and blocks of text.
    &[
        "- 'a''b'",
        "- \"a\\tb\\u00e9\\x41\"",
        "- \"\\q\"",
        "- 'a",
        "- \"a",
        "- \"a\\\n  b\"",
        "- 'a\n  b'",
        "- \"\\u12\"",
        "- \"\\0\"",
    ],
    &[
        "- |\n  a\n  b\n",
        "- >\n  a\n  b\n",
        "- |-\n  a\n",
        "- |+\n  a\n\n",
        "- >-\n  a\n\n  b",
        "- |0\n a",
        "- |x\n a",
        "- |\n",
    ],
    // Anchors.
    &["- &x a\n- *y", "&x [a]", "&x [*x]", "- &x [a]", "[&x , a]", "*x", "[*a]", "[& a]", "[* a]"],
    // Tags.
    &["[!!str null, !!str , !!str ~, !!str 1]", "[!!int a]", "[!!int 1.5]", "[!!float a]", "[!!bool yes]"],
    &["[!!timestamp a]", "[!!binary a]", "[!!merge <<]"],
    &["[! 1]", "! [a]", "!foo [a]", "!!seq [a]"],
    &["[!<tag:yaml.org,2002:str> null]", "[!e!foo a]", "%TAG !! tag:e.org,1:\n--- [!!binary YQ==]"],
    &["!!str null", "!!str", "!!binary a", "!!int 1", "[!!str '1']", "[!!int '']", "[!!bool null]"],
    &["[!!binary YQ==]", "[!!null null]", "!!null ''"],
    // Tabs.
    &["- a\t", "[\ta]", "[a,\tb]", "[a\t, b]", "[a]\t", "-\t- a", "- a\n\t- b", "[\n\ta]"],
    &["[a,\n\tb\n]", "- a\tb", "- 'a\tb'", "- |\n\ta", "#\ta\n- b", "- a\t# c"],
    &["[a\n\t]", "- !foo\ta", "- &x\ta"],
    &["---\t[a]", "- 'a\n\tb'"],
    // Directives.
    &["%YAML 1.1\n--- [a]", "%YAML 2.0\n--- [a]", "%YAML 1\n--- [a]", "%YAML 1.1"],
    &["%YAML 1.1\n%YAML 1.1\n--- [a]", "%YAML 1.1\n[a]", "%FOO a\n[a]", "%TAG ! tag:x,1:\n--- [!a b]", "%"],
    &["%TAG ! a\n%TAG ! b\n--- [c]", " %YAML 1.1\n--- [a]", "%YAML 1.1 # c\n--- [a]", "[%a]", "- %a", "- a\n%YAML 1.1"],
    // Documents and comments.
    &[
        "--- [a]\n--- [b]",
        "---",
        "---\n---\n- a",
        "--- a",
        "---\n- a\n...\n- b",
        "[a]\n---\n{",
        "- a\n...",
        "--- # c\n- a",
    ],
    &[
        "# c",
        "#c\n[a]",
        "[a] # c",
        "[a#b]",
        "- a #b",
        "- a#b",
        "- #b",
        "- a\n # c\n- b",
        "- a\n  # c\n  b",
        "[a\n---\n]",
    ],
    // Characters.
    &[
        "[>a]",
        "- a\u{1}",
        "- a\r\n- b\r\n",
        "- a\r- b",
        "- é",
        "[日本]",
        "- \u{1f600}",
        "\u{feff}- a",
        "- a\0",
        "- \u{a0}a",
        "[\u{3000}a]",
    ],
];

/// Texts that the two sides read differently, with Go's result and ours.
const OTHERWISE: &[(&str, &str, &str)] = &[
    // Tags. A name may be encoded text; an empty value with a tag is empty.
    ("nUll", "invalid", "accepted"),
    ("[!!null a]", "invalid", "accepted"),
    ("[!!seq a]", "requires \"a\"", "invalid"),
    ("[!!map a]", "requires \"a\"", "invalid"),
    ("[!!foo null]", "requires \"null\"", "accepted"),
    ("[!foo null]", "requires \"null\"", "accepted"),
    ("[!foo ]", "requires \"\"", "accepted"),
    ("[! null]", "accepted", "requires \"null\""),
    ("[! ]", "accepted", "requires \"\""),
    ("!!map [a]", "requires \"a\"", "invalid"),
    ("!!str [a]", "requires \"a\"", "invalid"),
    ("!!null [a]", "requires \"a\"", "invalid"),
    ("!!binary [a]", "requires \"a\"", "invalid"),
    ("[!<!foo> null]", "requires \"null\"", "accepted"),
    ("!!null a", "invalid", "accepted"),
    ("!foo", "invalid", "accepted"),
    ("- !a", "requires \"\"", "accepted"),
    ("[!!int 1]", "requires \"1\"", "invalid"),
    // Aliases, which we refuse.
    ("[&x a, *x]", "requires \"a,a\"", "invalid"),
    // Tabs where a line begins.
    ("\t- a", "invalid", "requires \"a\""),
    ("-\ta", "invalid", "requires \"a\""),
    ("- \ta", "invalid", "requires \"a\""),
    ("\t[a]", "invalid", "requires \"a\""),
    ("- |\n \ta", "invalid", "requires \"\\ta\\n\""),
    ("- >\n \ta", "invalid", "requires \"\\ta\\n\""),
    ("\t", "invalid", "accepted"),
    ("\t# c\n- a", "invalid", "requires \"a\""),
    ("\n\t\n- a", "invalid", "requires \"a\""),
    ("- a\n\t\n- b", "invalid", "requires \"a,b\""),
    ("- a\n\t", "invalid", "requires \"a\""),
    ("-\t", "invalid", "accepted"),
    ("- \t\n- a", "invalid", "requires \"a\""),
    // Directives.
    ("%YAML 1.2\n--- [a]", "invalid", "requires \"a\""),
    ("%YAML 1.3\n--- [a]", "invalid", "requires \"a\""),
    ("%FOO a\n--- [a]", "invalid", "requires \"a\""),
    // Texts that YAML 1.2 reads differently from YAML 1.1.
    ("[a:]", "requires \"a:\"", "invalid"),
    ("[:a]", "invalid", "requires \":a\""),
    ("[?a]", "invalid", "requires \"?a\""),
    ("[-]", "requires \"-\"", "invalid"),
    ("[!foo]", "invalid", "accepted"),
    ("- \"\\/\"", "invalid", "requires \"/\""),
    ("[a]# c", "requires \"a\"", "invalid"),
    ("- a\u{85}- b", "requires \"a,b\"", "requires \"a\\u0085- b\""),
    // Texts that only one of the two parsers accepts.
    ("...", "invalid", "accepted"),
    ("- \u{feff}a", "requires \"\\ufeffa\"", "invalid"),
    ("[a]\n}", "requires \"a\"", "invalid"),
];

#[test]
fn required_plugins_are_read_from_an_annotation_as_go_reads_them() -> anyhow::Result<()> {
    let texts: Vec<String> = ALIKE.concat().into_iter().map(str::to_owned).chain(laid_out()).collect();
    let Some(answers) = asked(&texts)? else { return Ok(()) };
    let differ = texts.iter().zip(&answers).filter(|(text, theirs)| gist(&ours(text)) != gist(theirs));
    let differ: Vec<String> =
        differ.map(|(text, go)| format!("{text:?}\n  Go:   {go}\n  ours: {}\n", ours(text))).collect();
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.concat());
    Ok(())
}

#[test]
fn some_odd_annotations_are_read_otherwise_than_by_go() -> anyhow::Result<()> {
    let texts: Vec<String> = OTHERWISE.iter().map(|(text, ..)| (*text).to_owned()).collect();
    let Some(answers) = asked(&texts)? else { return Ok(()) };
    let found = OTHERWISE.iter().zip(&answers).map(|((text, ..), answer)| (*text, gist(answer), gist(&ours(text))));
    let expected = OTHERWISE.iter().map(|(text, go, we)| (*text, (*go).to_owned(), (*we).to_owned()));
    let differ: Vec<_> = found.zip(expected).filter(|(found, expected)| found != expected).collect();
    assert!(differ.is_empty(), "{differ:#?}");
    Ok(())
}

#[test]
fn what_is_wrong_with_an_annotation_is_said_in_the_words_of_our_library() -> anyhow::Result<()> {
    let text = "- a: b".to_owned();
    let said = r#"error: invalid required-plugins.noderesource.dev annotation "- a: b": "#;
    assert_eq!(ours(&text), format!("{said}it must be a list of names: expected string scalar at line 1, column 3"));
    let Some(answers) = asked(&[text])? else { return Ok(()) };
    assert_eq!(answers[0], format!("{said}yaml: unmarshal errors:\n  line 1: cannot unmarshal !!map into string"));
    Ok(())
}

/// Returns lists of two entries, of each kind and in each layout.
fn laid_out() -> impl Iterator<Item = String> {
    let entries = ["a", "10-b", "'c d'", "\"e\"", "null", "''", "1", "true", "!!str ~", "!x y", "&p f"];
    let layouts = [
        "[1st,2nd]",
        "[ 1st , 2nd ]",
        "[\n  1st,\n  2nd,\n]",
        "- 1st\n- 2nd",
        "\n  - 1st\n  - 2nd\n",
        "# c\n- 1st # d\n\n- 2nd\n",
        "---\n- 1st\n- 2nd\n...\n",
        "%YAML 1.1\n--- [1st, 2nd]",
    ];
    let pairs = entries.iter().flat_map(move |first| entries.map(|second| (*first, second)));
    let pairs: Vec<_> = pairs.collect();
    layouts.into_iter().flat_map(move |layout| {
        let lay_out = |(first, second): &(&str, &str)| layout.replace("1st", first).replace("2nd", second);
        pairs.iter().map(lay_out).collect::<Vec<_>>()
    })
}

/// Returns Go's results, if Go is available.
fn asked(texts: &[String]) -> anyhow::Result<Option<Vec<String>>> {
    let Ok(oracle) = go::program("oracle") else { return Ok(None) };
    let answers = ask(&oracle, &questions("required", texts))?;
    assert_eq!(answers.len(), texts.len());
    Ok(Some(answers))
}

/// Returns our result for a container whose pod has this annotation, if no plugin was asked.
fn ours(text: &str) -> String {
    let annotations = [("required-plugins.noderesource.dev".to_owned(), text.to_owned())].into();
    let proposal = Proposal { pod: Some(Pod { annotations, ..Pod::default() }), ..Proposal::default() };
    let verdict = DefaultValidator::default().validate(&proposal);
    verdict.rejection().map_or_else(|| "accepted".to_owned(), |reason| format!("error: {reason}"))
}

/// Returns the kind of a result, without the description of the error.
fn gist(answer: &str) -> String {
    let names = ["error: validation error: required plugin ", "error: validation error: required plugins "]
        .iter()
        .find_map(|before| answer.strip_prefix(before)?.strip_suffix(" not present"));
    match names {
        Some(names) => format!("requires {names}"),
        None if answer.starts_with("error: invalid required-plugins.noderesource.dev annotation ") => {
            "invalid".to_owned()
        }
        None => answer.to_owned(),
    }
}
