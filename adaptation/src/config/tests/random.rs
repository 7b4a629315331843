//! Random texts never make the parser panic.

use proptest::prelude::*;

use super::*;

/// Keys, values and separators of all file formats.
const PIECES: &[&str] = &[
    "[crio]\n",
    "[crio.nri]\n",
    "[crio.nri.default_validator]\n",
    "[plugins.a]\n",
    "[plugins]\n",
    "version = 3\n",
    "[plugins.'io.containerd.nri.v1.nri']\n",
    "[plugin_defaults]\n",
    "enable_nri",
    "nri_listen",
    "disable",
    "crio",
    "nri",
    "nri_plugin_request_timeout",
    "plugin_request_timeout",
    "strikes",
    "allow",
    "namespaces",
    "imports",
    "disabled_plugins",
    "mode = 'shadow'\n",
    "required = true\n",
    "[plugins.10-a]\n",
    "disableConnections",
    " = ",
    ": ",
    "\n",
    "- ",
    "{",
    "}",
    "[",
    "]",
    "'",
    "\"",
    "&a ",
    "*a",
    "---\n",
    "? ",
    "# ",
    "  ",
    "|\n",
    ", ",
    "true",
    "no",
    "null",
    "0",
    "-1",
    "9223372036854775807",
    "1e400",
    "'5s'",
    "'-9223372036854775808ns'",
    "é",
    "\u{0}",
];

fn check(text: &str) {
    let _ = Config::from_toml(text);
    let _ = Config::from_crio(text).map_err(|error| error.to_string());
    let _ = Config::from_nri_conf(text).map_err(|error| error.to_string());
}

proptest! {
    #[test]
    fn no_text_makes_us_panic(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn no_text_that_is_nearly_a_configuration_makes_us_panic(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
    ) {
        check(&pieces.concat());
    }
}
