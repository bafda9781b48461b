//! Events, deliveries and receivers of v1.

use serde_json::json;
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{ObjectBuilder, SchemaType};
use utoipa::openapi::{Content, Required};

use super::Told;
use super::v1::{Led, linked, success};
use crate::openapi::answers::{Kit, with_fields};
use crate::openapi::parameters;
use crate::openapi::schemas::events::{
    DeliveryList, EndpointList, EndpointOn, Event, EventPage, ReplayRequest, Replayed, SplitPostback, Trial,
    TrialRequest,
};

/// Where the first event of a page leads.
const FIRST_EVENT: [Led; 3] = [
    Led::ByParameter("getEvent", "event", "$response.body#/data/0/id"),
    Led::ByParameter("listEventDeliveries", "event", "$response.body#/data/0/id"),
    Led::ByParameter("redeliverEvent", "event", "$response.body#/data/0/id"),
];
/// Where the first receiver leads.
const FIRST_ENDPOINT: [Led; 1] =
    [Led::ByParameter("enableEndpoint", "endpoint", "$response.body#/data/0/id")];

pub(super) fn list(kit: &mut Kit) -> Told {
    Told::new(
        "listEvents",
        "Events",
        "A page of events",
        "What has happened to your transactions, oldest first. There is always a `next_cursor`, on an empty page too: keep it, and \
         ask with it for what has happened since.",
    )
    .with(parameters::of_events())
    .answers(200, linked(with_fields(success::<EventPage>(kit, "A page."), &["Link"]), &FIRST_EVENT))
    .refuses(422, &["validation_failed"])
}

pub(super) fn event(kit: &mut Kit) -> Told {
    Told::new("getEvent", "Events", "One event", "As in the feed.")
        .answers(200, success::<Event>(kit, "The event."))
        .refuses(404, &["not_found"])
}

pub(super) fn deliveries(kit: &mut Kit) -> Told {
    let description = "Oldest first, at most the last 100.";
    Told::new("listEventDeliveries", "Events", "The attempts to deliver an event", description)
        .answers(200, success::<DeliveryList>(kit, "The attempts."))
        .refuses(404, &["not_found"])
}

pub(super) fn redeliver(kit: &mut Kit) -> Told {
    Told::new(
        "redeliverEvent",
        "Events",
        "Deliver an event once more",
        "Whatever came of it before, and even if the integrator isn't sent it by itself. What has nowhere to go is 409.",
    )
    .body(nothing())
    .answers(202, success::<Event>(kit, "The event, `waiting` and due now."))
    .refuses(404, &["not_found"])
    .refuses(409, &["invalid_state"])
}

pub(super) fn replay(kit: &mut Kit) -> Told {
    let body = kit.json::<ReplayRequest>(&[
        ("all that was given up", json!({})),
        (
            "some of it",
            json!({"since": "2026-01-01T00:00:00Z", "types": ["cashin.confirmed", "cashout.confirmed"]}),
        ),
    ]);
    Told::new(
        "replayDeliveries",
        "Events",
        "Deliver once more what was given up",
        "The oldest come first. What waits is left alone.",
    )
    .body(body)
    .answers(202, success::<Replayed>(kit, "How many that are."))
    .refuses(422, &["validation_failed"])
}

pub(super) fn try_out(kit: &mut Kit) -> Told {
    let body = kit.json::<TrialRequest>(&[("a receiver", json!({"url": "https://shop.example/pix"}))]);
    Told::new(
        "testPostback",
        "Postbacks",
        "Send a signed trial to a URL",
        "Now, once, and it is no event. An integrator tries out one URL at a time: while a trial is under way, the next is 429.",
    )
    .body(body)
    .answers(200, success::<Trial>(kit, "What came of it."))
    .refuses(422, &["validation_failed"])
}

pub(super) fn split_postback(kit: &mut Kit) -> Told {
    let description = "The URL that `split.received` and `split.taken_back` are sent to; `null` for none.";
    Told::new("getSplitPostback", "Postbacks", "Where splits are told of", description)
        .answers(200, success::<SplitPostback>(kit, "The URL."))
}

pub(super) fn set_split_postback(kit: &mut Kit) -> Told {
    let body = kit.json::<SplitPostback>(&[
        ("a receiver", json!({"postbackUrl": "https://shop.example/splits"})),
        ("none", json!({"postbackUrl": null})),
    ]);
    Told::new(
        "setSplitPostback",
        "Postbacks",
        "Set where splits are told of",
        "A split has no request that could name a `postbackUrl`, so the recipient sets one for all of them. It holds for splits that \
         come to be from now on; the events of an older one go where they went.",
    )
    .body(body)
    .answers(200, success::<SplitPostback>(kit, "It is set."))
    .refuses(404, &["not_found"])
    .refuses(422, &["validation_failed"])
}

pub(super) fn endpoints(kit: &mut Kit) -> Told {
    let description = "Those that have failed lately, and not worked since.";
    Told::new("listFailingEndpoints", "Postbacks", "The receivers that fail", description)
        .answers(200, linked(success::<EndpointList>(kit, "The receivers."), &FIRST_ENDPOINT))
}

pub(super) fn enable(kit: &mut Kit) -> Told {
    Told::new(
        "enableEndpoint",
        "Postbacks",
        "Switch a receiver on again",
        "Forgets that it has failed. What was given up meanwhile stays so until it is replayed.",
    )
    .body(nothing())
    .answers(200, success::<EndpointOn>(kit, "It is on."))
    .refuses(404, &["not_found"])
}

/// The body of what wants none.
fn nothing() -> RequestBody {
    let anything = ObjectBuilder::new().schema_type(SchemaType::AnyValue).build();
    let anything = Content::builder().schema(Some(anything)).example(Some(json!({}))).build();
    RequestBodyBuilder::new()
        .description(Some("None is needed; what is there is not looked at."))
        .content("application/json", anything)
        .required(Some(Required::False))
        .build()
}
