#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pix_http::fuzzing::amount(data));
