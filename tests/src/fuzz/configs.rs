//! Configuration files: they are read, or refused with a reason that can be shown.

use nri_adaptation::config::{Config, ConfigError};

/// Reads the input as each kind of configuration file.
pub fn configs(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for read in [Config::from_toml, Config::from_crio, Config::from_nri_conf] {
        check(&text, read(&text));
    }
}

fn check(text: &str, read: Result<Config, ConfigError>) {
    match read {
        Ok(config) => assert!(config.changes_that_need_a_restart(&config).is_empty(), "it differs from itself"),
        Err(error) => {
            assert!(!error.problems().is_empty(), "refused without a reason");
            // YAML has more kinds of line breaks than TOML, and the end of a text may be after its
            // last line.
            let n_lines = 2 + text.matches(['\r', '\n']).count();
            for problem in error.problems() {
                assert!(!problem.to_string().is_empty());
                assert!(problem.line.is_none_or(|line| (1..=n_lines).contains(&line)), "{problem}");
            }
        }
    }
}
