use super::*;

fn settings(changed: &[(&str, &str)]) -> BTreeMap<String, String> {
    let sound = [
        ("server_version_num", "150018"),
        ("server_version", "15.18"),
        ("server_encoding", "UTF8"),
        ("default_transaction_read_only", "off"),
        ("fsync", "on"),
        ("full_page_writes", "on"),
        ("synchronous_commit", "on"),
    ];
    sound.iter().chain(changed).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn judged(changed: &[(&str, &str)]) -> Option<OpenError> {
    let (config, _) = parse("postgres://pix@h/books").unwrap();
    judge(&config, &settings(changed), false).err()
}

#[test]
fn a_server_is_refused_for_what_it_does_not_promise() {
    let database = || "books".to_owned();
    let not_durable = |setting: &str, value: &str| OpenError::NotDurable {
        database: database(),
        setting: setting.into(),
        value: value.into(),
    };
    for (changed, expected) in [
        (("fsync", "off"), not_durable("fsync", "off")),
        (("full_page_writes", "off"), not_durable("full_page_writes", "off")),
        (("synchronous_commit", "off"), not_durable("synchronous_commit", "off")),
        (("synchronous_commit", "local"), not_durable("synchronous_commit", "local")),
        (("synchronous_commit", "remote_write"), not_durable("synchronous_commit", "remote_write")),
        (("default_transaction_read_only", "on"), OpenError::ReadOnly(database())),
        (
            ("server_encoding", "SQL_ASCII"),
            OpenError::NotUtf8 { database: database(), encoding: "SQL_ASCII".into() },
        ),
        (
            ("server_version_num", "129999"),
            OpenError::TooOld { server: "h:5432".into(), version: "15.18".into() },
        ),
    ] {
        assert_eq!(judged(&[changed]), Some(expected));
    }
    for value in ["on", "remote_apply"] {
        assert_eq!(judged(&[("synchronous_commit", value)]), None);
    }
    assert_eq!(judged(&[("server_version_num", "130000")]), None);
}

#[test]
fn what_a_server_does_not_tell_is_not_taken_for_granted() {
    let (config, _) = parse("postgres://pix@h/books").unwrap();
    assert!(matches!(judge(&config, &BTreeMap::new(), false), Err(OpenError::TooOld { .. })));
    let mut silent = settings(&[]);
    silent.remove("fsync");
    assert!(matches!(judge(&config, &silent, false), Err(OpenError::NotDurable { .. })));
}

#[test]
fn there_is_a_migration_and_its_name_begins_with_its_day() {
    let names: Vec<String> = embedded().iter().map(|migration| migration.name().to_string()).collect();
    assert_eq!(names[0], "2026-11-21-000001_books");
}
