use super::*;

#[test]
fn durations_are_read_as_go_reads_them() {
    check("0", 0);
    check("-0", 0);
    check("-0s", 0);
    check("0h0m0s", 0);
    check("2s", 2_000_000_000);
    check("+2s", 2_000_000_000);
    check("500ms", 500_000_000);
    check("1m30s", 90_000_000_000);
    check("1h1h", 7_200_000_000_000);
    check("39h9m14.425s", 140_954_425_000_000);
    check("10ns11us12\u{b5}s13\u{3bc}s", 36_010);
}

#[test]
fn a_number_may_have_a_fraction() {
    check("1.5h", 5_400_000_000_000);
    check(".5s", 500_000_000);
    check("1.s", 1_000_000_000);
    check("0.9223372036854775808s", 922_337_203);
    check("0.100000000000000000000h", 360_000_000_000);
    check("0.830103483285477580700h", 2_988_372_539_827);
}

#[test]
fn what_go_refuses_is_refused_in_its_words() {
    check_error("", r#"invalid duration """#);
    check_error("-", r#"invalid duration "-""#);
    check_error(".", r#"invalid duration ".""#);
    check_error(".s", r#"invalid duration ".s""#);
    check_error("s", r#"invalid duration "s""#);
    check_error("--1s", r#"invalid duration "--1s""#);
    check_error("1s-1s", r#"unknown unit "s-" in duration "1s-1s""#);
    check_error("5", r#"missing unit in duration "5""#);
    check_error("1m30", r#"missing unit in duration "1m30""#);
    check_error("1 s", r#"unknown unit " s" in duration "1 s""#);
    check_error("2S", r#"unknown unit "S" in duration "2S""#);
    check_error("1d", r#"unknown unit "d" in duration "1d""#);
    check_error("1é", r#"unknown unit "é" in duration "1é""#);
}

#[test]
fn the_longest_duration_is_gos() {
    check("9223372036854775807ns", i64::MAX.unsigned_abs());
    check("2562047h47m16.854775807s", i64::MAX.unsigned_abs());
    for text in ["9223372036854775808ns", "9223372036854775809ns", "99999999999999999999s", "3000000h", "2562047.9h"] {
        check_error(text, &format!("invalid duration \"{text}\""));
    }
}

#[test]
fn a_negative_duration_is_refused() {
    check_error("-1ns", r#"negative duration "-1ns""#);
    check_error("-9223372036854775808ns", r#"negative duration "-9223372036854775808ns""#);
}

#[track_caller]
fn check(text: &str, nanos: u64) {
    assert_eq!(parse(text), Ok(Duration::from_nanos(nanos)), "{text}");
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(parse(text).map_err(|error| error.to_string()), Err(expected.to_owned()));
}
