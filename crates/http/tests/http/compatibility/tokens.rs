//! `POST /v2/oauth/token`: `ID` and `SECRET` in a body stand for those of a key.

use serde_json::json;

use super::cases;
use crate::support::{Answer, Gateway, Request, Tenant};
use crate::token::{PATH, basic};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";
const MULTIPART: &str = "multipart/form-data; boundary=b";

/// Where a client has its credentials.
#[derive(Clone, Copy, PartialEq)]
enum In {
    Header,
    Body,
}

async fn sent(gateway: &Gateway, tenant: &Tenant, place: In, content_type: &str, body: &str) -> Answer {
    let body = body.replace("ID", &tenant.public_id).replace("SECRET", "secret");
    let mut request = Request::raw(PATH, body.as_bytes());
    if place == In::Header {
        request = request.header("Authorization", &basic(&tenant.public_id, "secret"));
    }
    if !content_type.is_empty() {
        request = request.header("Content-Type", content_type);
    }
    gateway.send(request).await
}

/// A token comes back, which clients keep for as many seconds as a number says, and which opens v2 and v1.
async fn grants(place: In, content_type: &str, body: &str) {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let answer = sent(&gateway, &tenant, place, content_type, body).await.expect(200);
    let told = json!({"access_token": tenant.token, "token_type": "Bearer", "expires_in": 3600});
    assert_eq!(answer.json(), told);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("pragma"), Some("no-cache"));
    assert_eq!(answer.header("content-type"), Some(JSON));
    let with_it = Tenant { token: answer.text("access_token"), ..tenant };
    gateway.post(&with_it, "/v2/balance", &json!({})).await.expect(200);
    gateway.get(&with_it, "/api/v1/balance").await.expect(200);
}

async fn knows_no_such_grant(place: In, content_type: &str, body: &str) {
    let gateway = Gateway::start().await;
    let tenant = gateway.tenant(0).await;
    let answer = sent(&gateway, &tenant, place, content_type, body).await.expect(400);
    assert_eq!(
        (answer.code().as_str(), answer.text("error").as_str()),
        ("unsupported_grant_type", "unsupported_grant_type")
    );
}

cases!(grants {
    basic_without_a_body: In::Header, "", "";
    basic_with_an_empty_body_called_json: In::Header, JSON, "";
    basic_with_an_empty_object: In::Header, JSON, "{}";
    basic_with_an_empty_array: In::Header, JSON, "[]";
    basic_with_a_body_that_is_broken: In::Header, JSON, "{broken";
    basic_with_a_grant_in_json: In::Header, JSON, r#"{"grant_type":"client_credentials"}"#;
    basic_with_a_grant_in_a_form: In::Header, FORM, "grant_type=client_credentials";
    basic_with_a_grant_in_a_form_called_json: In::Header, JSON, "grant_type=client_credentials";
    basic_wins_over_credentials_in_the_body: In::Header, JSON, r#"{"client_id":"someone","client_secret":"else"}"#;
    json_with_client_id: In::Body, JSON, r#"{"client_id":"ID","client_secret":"SECRET"}"#;
    json_with_client_id_and_grant: In::Body, JSON, r#"{"grant_type":"client_credentials","client_id":"ID","client_secret":"SECRET"}"#;
    json_with_public_id: In::Body, JSON, r#"{"public_id":"ID","secret":"SECRET"}"#;
    json_with_public_id_and_grant: In::Body, JSON, r#"{"public_id":"ID","secret":"SECRET","grant_type":"client_credentials"}"#;
    json_called_a_form: In::Body, FORM, r#"{"client_id":"ID","client_secret":"SECRET"}"#;
    json_called_text: In::Body, "text/plain", r#"{"client_id":"ID","client_secret":"SECRET"}"#;
    json_called_nothing: In::Body, "", r#"{"client_id":"ID","client_secret":"SECRET"}"#;
    form_with_client_id_and_grant: In::Body, FORM, "grant_type=client_credentials&client_id=ID&client_secret=SECRET";
    form_with_client_id: In::Body, FORM, "client_id=ID&client_secret=SECRET";
    form_with_public_id: In::Body, FORM, "public_id=ID&secret=SECRET&grant_type=";
    multipart_with_client_id: In::Body, MULTIPART, "--b\r\nContent-Disposition: form-data; name=\"client_id\"\r\n\r\nID\r\n--b\r\nContent-Disposition: form-data; name=\"client_secret\"\r\n\r\nSECRET\r\n--b--\r\n";
    multipart_with_public_id_and_grant: In::Body, MULTIPART, "--b\r\nContent-Disposition: form-data; name=\"public_id\"\r\n\r\nID\r\n--b\r\nContent-Disposition: form-data; name=\"secret\"\r\n\r\nSECRET\r\n--b\r\nContent-Disposition: form-data; name=\"grant_type\"\r\n\r\nclient_credentials\r\n--b--\r\n";
});

cases!(knows_no_such_grant {
    another_grant_beside_basic: In::Header, JSON, r#"{"grant_type":"password"}"#;
    another_grant_in_a_form_beside_basic: In::Header, FORM, "grant_type=authorization_code";
    another_grant_in_json: In::Body, JSON, r#"{"grant_type":"password","client_id":"ID","client_secret":"SECRET"}"#;
    another_grant_in_a_form: In::Body, FORM, "grant_type=refresh_token&client_id=ID&client_secret=SECRET";
});
