//! The numbers of the fields: a module for each message, with a constant for each field and `ALL`
//! for all of them in ascending order. The names are those in the generated messages.

#![allow(missing_docs, non_snake_case, non_upper_case_globals, unreachable_pub, unused)]

include!(concat!(env!("OUT_DIR"), "/field_numbers.rs"));
