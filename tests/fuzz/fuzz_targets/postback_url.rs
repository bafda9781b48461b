#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pix_notifications::fuzzing::postback_url(data));
