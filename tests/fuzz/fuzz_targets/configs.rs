#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| nri_tests::fuzz::configs(input));
