#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pix_domain::fuzzing::br_code(data));
