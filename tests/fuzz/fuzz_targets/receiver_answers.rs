#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pix_notifications::fuzzing::receiver_answers(data));
