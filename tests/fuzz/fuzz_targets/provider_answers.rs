#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pix_settlement::fuzzing::provider_answers(data));
