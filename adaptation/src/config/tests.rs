mod containerd;
mod crio;
mod imports;
mod load;
mod nri_conf;
mod problems;
mod random;
mod reading;

use super::*;

/// Checks that a text is refused with these messages.
#[track_caller]
fn refused(text: &str, expected: &[&str]) {
    let error = Config::from_toml(text).expect_err("it was taken");
    let sentences: Vec<_> = error.problems().iter().map(ToString::to_string).collect();
    assert_eq!(sentences, expected);
}
