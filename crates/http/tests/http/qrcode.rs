//! The pictures of a charge's QR code.

use std::io::Cursor;

use pix_conformance::Answer as Told;
use serde_json::json;

use crate::support::{Answer, Gateway, Request, Tenant, charge_body};

/// What another library reads in a PNG, and how many pixels that is wide.
fn read(answer: &Answer) -> (u32, String) {
    let mut decoder = png::Decoder::new(Cursor::new(&answer.bytes));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let told = reader.next_frame(&mut pixels).unwrap();
    let (width, height) = (told.width.try_into().unwrap(), told.height.try_into().unwrap());
    let mut picture =
        rqrr::PreparedImage::prepare_from_greyscale(width, height, |x, y| pixels[y * width + x]);
    let (_, text) = picture.detect_grids()[0].decode().unwrap();
    assert_eq!(width, height);
    (told.width, text)
}

async fn charge(gateway: &Gateway) -> (Tenant, String, String) {
    let tenant = gateway.tenant(0).await;
    let made = gateway.post(&tenant, "/api/v1/charges", &charge_body()).await.expect(201);
    let svg = made.json()["links"]["qrcode_svg"].as_str().unwrap().to_owned();
    let path = svg.strip_prefix(crate::support::BASE).unwrap().strip_suffix(".svg").unwrap().to_owned();
    (tenant, path, made.text("qrcode"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_png_has_the_size_that_is_asked_for_and_says_what_the_charge_does() {
    let gateway = Gateway::start().await;
    let (tenant, path, code) = charge(&gateway).await;
    for (query, size) in
        [("", 512), ("?size=128", 128), ("?size=300", 300), ("?size=1024", 1024), ("?other=", 512)]
    {
        let answer = gateway.get(&tenant, &format!("{path}.png{query}")).await.expect(200);
        assert_eq!(answer.header("content-type"), Some("image/png"));
        assert_eq!(read(&answer), (size, code.clone()), "{query}");
        assert!(answer.bytes.len() < 8_000, "{} bytes", answer.bytes.len());
    }
    let by_name = gateway.get(&tenant, "/api/v1/charges/order:1/qrcode.png").await.expect(200);
    assert_eq!(read(&by_name).1, code);
    for query in ["127", "1025", "0", "-1", "1e3", "+512", "99999999999999999999", "x", ""] {
        let answer = gateway.get(&tenant, &format!("{path}.png?size={query}")).await.expect(422);
        assert_eq!(
            (answer.code().as_str(), &answer.json()["errors"][0]["field"]),
            ("validation_failed", &json!("size"))
        );
    }
    gateway.get(&tenant, &format!("{path}.gif")).await.expect(404);
    gateway.get(&tenant, "/api/v1/charges/nothing/qrcode.png").await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_svg_is_markup_that_names_what_it_is_and_nobody() {
    let gateway = Gateway::start().await;
    let (tenant, path, code) = charge(&gateway).await;
    let answer = gateway.get(&tenant, &format!("{path}.svg")).await.expect(200);
    assert_eq!(answer.header("content-type"), Some("image/svg+xml"));
    assert_eq!(answer.header("content-security-policy"), Some("default-src 'none'; frame-ancestors 'none'"));
    assert!(answer.body.starts_with("<svg xmlns=") && answer.body.ends_with("</svg>"), "{}", answer.body);
    assert!(!answer.body.contains(&code) && !answer.body.contains("Ana Souza"), "{}", answer.body);
    let head = gateway.send(Request::new("HEAD", &format!("{path}.svg")).token(&tenant)).await.expect(200);
    assert_eq!(head.body, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_the_picture_is_not_sent_it_again() {
    let gateway = Gateway::start().await;
    let (tenant, path, _) = charge(&gateway).await;
    let mut tags = Vec::new();
    for kind in [".svg", ".png", ".png?size=128"] {
        let path = format!("{path}{kind}");
        let answer = gateway.get(&tenant, &path).await.expect(200);
        assert_eq!(answer.header("cache-control"), Some("private, max-age=300"));
        assert_eq!(answer.header("vary"), Some("Authorization"));
        let tag = answer.header("etag").unwrap().to_owned();
        for known in [tag.clone(), format!("\"x\", W/{tag}"), "*".to_owned()] {
            let request = Request::new("GET", &path).token(&tenant).header("If-None-Match", &known);
            let answer = gateway.send(request).await.expect(304);
            assert_eq!((answer.body.as_str(), answer.header("etag")), ("", Some(tag.as_str())));
            assert_eq!(answer.header("cache-control"), Some("private, max-age=300"));
        }
        let other = Request::new("GET", &path).token(&tenant).header("If-None-Match", "\"x\"");
        gateway.send(other).await.expect(200);
        tags.push(tag);
    }
    tags.dedup();
    assert_eq!(tags.len(), 3, "{tags:?}");
    let refused = gateway.send(Request::new("GET", &format!("{path}.png"))).await.expect(401);
    assert_eq!(refused.header("cache-control"), Some("no-store"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_the_provider_has_not_made_has_no_picture() {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    for (name, told, status) in [("unknown", Told::LostRequest, 504), ("refused", Told::Reject, 422)] {
        gateway.provider.fake.answers_next_charge(told);
        let mut body = charge_body();
        body["external_id"] = json!(name);
        gateway.post(&tenant, "/api/v1/charges", &body).await.expect(status);
        for kind in ["svg", "png"] {
            let answer =
                gateway.get(&tenant, &format!("/api/v1/charges/{name}/qrcode.{kind}")).await.expect(409);
            assert_eq!(answer.code(), "invalid_state");
        }
    }
}
