//! Which language somebody reads (`Accept-Language`, RFC 9110 §12.5.4), and the sentences of errors in it. Errors are in English
//! unless Portuguese is asked for; their codes, field names and everything else stay as they are.

use std::borrow::Cow;

use actix_web::http::header::{ACCEPT_LANGUAGE, HeaderMap};

/// A language of sentences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// The one they are written in.
    English,
    /// Brazilian Portuguese.
    Portuguese,
}

/// The most ranges of a field that says what is wanted which are looked at (`Accept-Language`, `Accept` of a statement).
pub(crate) const MAX_RANGES: usize = 16;

/// The quality of a range without one, in thousandths.
const FULL_QUALITY: u16 = 1_000;

impl Language {
    /// The one that the header fields ask for most; of equals the first; `default` when they ask for neither.
    pub(crate) fn of(headers: &HeaderMap, default: Self) -> Self {
        let fields = headers.get_all(ACCEPT_LANGUAGE).filter_map(|value| value.to_str().ok());
        let mut best = (0, default);
        for range in fields.flat_map(|value| value.split(',')).take(MAX_RANGES) {
            let mut parts = range.split(';').map(str::trim);
            let primary = parts.next().and_then(|tag| tag.split('-').next()).unwrap_or_default();
            let language = match primary.to_ascii_lowercase().as_str() {
                "en" => Self::English,
                "pt" => Self::Portuguese,
                "*" => default,
                _ => continue,
            };
            let quality = quality(parts);
            if quality > best.0 {
                best = (quality, language);
            }
        }
        best.1
    }

    /// The language's tag (RFC 5646).
    pub(crate) const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Portuguese => "pt-BR",
        }
    }

    /// A sentence in this language. One that has no other form stays as it is.
    pub(crate) fn say(self, sentence: &str) -> Cow<'_, str> {
        let translated = match self {
            Self::English => None,
            Self::Portuguese => PORTUGUESE.iter().find_map(|(english, form)| {
                let mut values = values(english, sentence)?.into_iter();
                let pieces = form.split("{}").flat_map(|piece| [piece, values.next().unwrap_or_default()]);
                Some(pieces.collect::<String>())
            }),
        };
        translated.map_or_else(|| Cow::Owned(sentence.to_owned()), Cow::Owned)
    }
}

/// The quality among the parameters of a range (RFC 9110 §12.4.2), in thousandths.
pub(crate) fn quality<'a>(parameters: impl Iterator<Item = &'a str>) -> u16 {
    let mut parameters = parameters.map(str::trim);
    let weight = parameters.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
    weight.map_or(FULL_QUALITY, |text| thousandths(text).unwrap_or(0))
}

/// A quality in thousandths.
fn thousandths(text: &str) -> Option<u16> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
    match whole {
        "1" if digits => Some(FULL_QUALITY),
        "0" if digits => format!("{part:0<3}").parse().ok(),
        _ => None,
    }
}

/// What stands in `sentence` where `pattern` has `{}`; `None` when it isn't of that pattern.
fn values<'a>(pattern: &str, sentence: &'a str) -> Option<Vec<&'a str>> {
    let mut pieces = pattern.split("{}");
    let mut rest = sentence.strip_prefix(pieces.next()?)?;
    let mut values = Vec::new();
    let mut pieces = pieces.peekable();
    while let Some(piece) = pieces.next() {
        let end =
            if pieces.peek().is_none() { rest.strip_suffix(piece).map(str::len) } else { rest.find(piece) }?;
        let (value, after) = rest.split_at_checked(end)?;
        values.push(value);
        rest = after.strip_prefix(piece)?;
    }
    rest.is_empty().then_some(values)
}

/// English sentences, with `{}` for what varies, and their Portuguese forms, with the same in the same order. The first that
/// fits counts, so that what begins or ends with `{}` stands last.
const PORTUGUESE: &[(&str, &str)] = &[
    // Titles.
    ("Malformed request", "Requisição malformada"),
    ("Unsupported grant type", "Tipo de concessão não suportado"),
    ("Invalid access token", "Token de acesso inválido"),
    ("Expired access token", "Token de acesso expirado"),
    ("Invalid credentials", "Credenciais inválidas"),
    ("Insufficient scope", "Escopo insuficiente"),
    ("Address not allowed", "Endereço não permitido"),
    ("Integrator suspended", "Integrador suspenso"),
    ("Not found", "Não encontrado"),
    ("Method not allowed", "Método não permitido"),
    ("Request timeout", "Tempo da requisição esgotado"),
    ("Payload too large", "Corpo grande demais"),
    ("Header fields too large", "Cabeçalhos grandes demais"),
    ("Not acceptable", "Forma não disponível"),
    ("Conflicting external id", "external_id em conflito"),
    ("Possible duplicate", "Possível duplicidade"),
    ("Invalid state", "Estado inválido"),
    ("Validation failed", "Falha de validação"),
    ("Invalid amount", "Valor inválido"),
    ("Invalid PIX key", "Chave PIX inválida"),
    ("Insufficient balance", "Saldo insuficiente"),
    ("Limit exceeded", "Limite excedido"),
    ("Idempotency mismatch", "Chave de idempotência usada com outro corpo"),
    ("Refund exceeds the payment", "Devolução maior que o pagamento"),
    ("Refund window closed", "Prazo de devolução encerrado"),
    ("Refused by the settlement provider", "Recusado pelo provedor de liquidação"),
    ("Too many requests", "Requisições demais"),
    ("Settlement provider unavailable", "Provedor de liquidação indisponível"),
    ("Settlement provider timeout", "Provedor de liquidação sem resposta"),
    ("Overloaded", "Sobrecarregado"),
    ("Internal error", "Erro interno"),
    ("Error", "Erro"),
    // The request as a whole.
    ("the request can't be understood", "não foi possível entender a requisição"),
    ("the request is not valid", "a requisição não é válida"),
    ("the query can't be read", "não foi possível ler os parâmetros da URL"),
    ("the body could not be read", "não foi possível ler o corpo"),
    ("the body did not arrive in time", "o corpo não chegou a tempo"),
    ("the body must be JSON or a form", "o corpo deve ser JSON ou um formulário"),
    ("the body must be UTF-8", "o corpo deve estar em UTF-8"),
    ("the body must be a JSON object", "o corpo deve ser um objeto JSON"),
    ("the body is no JSON: look at line {}, column {}", "o corpo não é JSON: veja a linha {}, coluna {}"),
    (
        "the body must not be compressed: send it without Content-Encoding",
        "o corpo não deve ser comprimido: envie-o sem Content-Encoding",
    ),
    ("the body must be well-formed multipart/form-data", "o corpo deve ser multipart/form-data bem formado"),
    ("the body must have at most {} bytes", "o corpo deve ter no máximo {} bytes"),
    ("the body must not name a field twice", "o corpo não deve trazer o mesmo campo duas vezes"),
    ("the body must not name a field twice: {}", "o corpo não deve trazer o mesmo campo duas vezes: {}"),
    ("the header fields must have at most {} bytes", "os cabeçalhos devem ter no máximo {} bytes"),
    ("Authorization must not be repeated", "Authorization não deve ser repetido"),
    ("Idempotency-Key must not be repeated", "Idempotency-Key não deve ser repetido"),
    (
        "Idempotency-Key must be plain text or one well-formed quoted string",
        "Idempotency-Key deve ser texto simples ou uma única string entre aspas bem formada",
    ),
    (
        "Idempotency-Key must consist of visible ASCII characters",
        "Idempotency-Key deve ter somente caracteres ASCII visíveis",
    ),
    ("grant_type must be client_credentials", "grant_type deve ser client_credentials"),
    ("this path allows {} only", "este caminho aceita somente {}"),
    ("not found", "não encontrado"),
    ("internal error", "erro interno"),
    ("too many requests; try again in {} s", "requisições demais; tente de novo em {} s"),
    ("too much to do right now; nothing was done", "sobrecarga no momento; nada foi feito"),
    ("out of service right now; nothing was done", "fora de serviço no momento; nada foi feito"),
    // Who asks.
    ("an access token is required", "é preciso um token de acesso"),
    ("the access token is not valid", "o token de acesso não é válido"),
    ("the access token has expired", "o token de acesso expirou"),
    ("the access token needs the scope {}", "o token de acesso precisa do escopo {}"),
    ("this key may not be used from this address", "esta chave não pode ser usada a partir deste endereço"),
    ("too many sign-ins at once", "autenticações demais ao mesmo tempo"),
    (
        "the gateway was restored from a backup and sends no money until its operators have checked the books; nothing was done",
        "o gateway foi restaurado de um backup e não envia dinheiro até que seus operadores confiram os livros; nada foi feito",
    ),
    (
        "this node's clock is not right, and until it is no money is sent by it; nothing was done",
        "o relógio deste nó não está certo e, até que esteja, ele não envia dinheiro; nada foi feito",
    ),
    (
        "this integrator is suspended: money can't be sent",
        "este integrador está suspenso: não é possível enviar dinheiro",
    ),
    ("scopes must be some of {}", "scopes devem ser alguns de {}"),
    ("at least one scope is required: {}", "é preciso pelo menos um escopo: {}"),
    // Fields.
    ("PIX key must be a CPF of 11 digits", "a chave PIX deve ser um CPF de 11 dígitos"),
    ("PIX key must be a CNPJ of 14 characters", "a chave PIX deve ser um CNPJ de 14 caracteres"),
    ("PIX key must be a UUID", "a chave PIX deve ser um UUID"),
    (
        "PIX key must be a telephone number, such as +5511987654321",
        "a chave PIX deve ser um telefone, como +5511987654321",
    ),
    (
        "PIX key must be an e-mail address, such as name@example.com",
        "a chave PIX deve ser um e-mail, como nome@example.com",
    ),
    (
        "keyType must be one of CPF, CNPJ, EMAIL, PHONE (or TELEFONE, CELULAR), EVP (or RANDOM, RANDOM_KEY, ALEATORIA, CHAVE_ALEATORIA)",
        "keyType deve ser CPF, CNPJ, EMAIL, PHONE (ou TELEFONE, CELULAR) ou EVP (ou RANDOM, RANDOM_KEY, ALEATORIA, CHAVE_ALEATORIA)",
    ),
    ("a CPF must have 11 digits", "um CPF deve ter 11 dígitos"),
    (
        "a CNPJ must have 12 letters or digits and 2 check digits",
        "um CNPJ deve ter 12 letras ou dígitos e 2 dígitos verificadores",
    ),
    ("the check digits of the CPF are wrong", "os dígitos verificadores do CPF estão errados"),
    ("the check digits of the CNPJ are wrong", "os dígitos verificadores do CNPJ estão errados"),
    ("document must have 11 or 14 letters or digits", "document deve ter 11 ou 14 letras ou dígitos"),
    (
        "email must be an e-mail address, such as name@example.com",
        "email deve ser um endereço de e-mail, como nome@example.com",
    ),
    (
        "external_id must not begin or end with a blank",
        "external_id não deve começar nem terminar com espaço",
    ),
    (
        "external_id names more than one transaction; ask by uuid",
        "external_id corresponde a mais de uma transação; consulte pelo uuid",
    ),
    (
        "allow_duplicate_of must be the uuid of a transaction",
        "allow_duplicate_of deve ser o uuid de uma transação",
    ),
    ("a value of metadata must not be empty", "um valor de metadata não deve ser vazio"),
    (
        "a value of metadata must have at most {} characters",
        "um valor de metadata deve ter no máximo {} caracteres",
    ),
    (
        "a key of metadata must have 1 to {} letters, digits, '_', '-' or '.'",
        "uma chave de metadata deve ter de 1 a {} letras, dígitos, '_', '-' ou '.'",
    ),
    ("metadata must not name a key twice", "metadata não deve repetir uma chave"),
    ("metadata must have at most {} pairs", "metadata deve ter no máximo {} pares"),
    ("postbackUrl must not contain blanks", "postbackUrl não deve conter espaços"),
    ("postbackUrl must start with http:// or https://", "postbackUrl deve começar com http:// ou https://"),
    ("postbackUrl must not contain user information", "postbackUrl não deve conter usuário nem senha"),
    (
        "postbackUrl must name a host, such as https://example.com/pix",
        "postbackUrl deve conter um host, como https://example.com/pix",
    ),
    ("url must not contain blanks", "url não deve conter espaços"),
    ("url must start with http:// or https://", "url deve começar com http:// ou https://"),
    ("url must not contain user information", "url não deve conter usuário nem senha"),
    (
        "url must name a host, such as https://example.com/pix",
        "url deve conter um host, como https://example.com/pix",
    ),
    ("the URL must start with https:// or http://", "a URL deve começar com https:// ou http://"),
    ("the percentages must not sum above 100", "as porcentagens não devem somar mais de 100"),
    (
        "the parts must not sum above the net amount of the charge, {}",
        "as partes não devem somar mais que o valor líquido da cobrança, {}",
    ),
    (
        "uuid and external_id must name the same transaction",
        "uuid e external_id devem indicar a mesma transação",
    ),
    ("uuid or external_id is required", "é preciso informar uuid ou external_id"),
    // What can't be done.
    (
        "external_id is already used by another request with a different body",
        "external_id já foi usado por outra requisição com um corpo diferente",
    ),
    (
        "this Idempotency-Key was already used with a different body",
        "esta Idempotency-Key já foi usada com um corpo diferente",
    ),
    (
        "a request just like this one is in progress or was just done; send an external_id or Idempotency-Key, or allow_duplicate_of with its uuid, to make another",
        "uma requisição igual a esta está em andamento ou acabou de ser feita; envie um external_id ou Idempotency-Key, ou allow_duplicate_of com o uuid dela, para fazer outra",
    ),
    ("the identifier names more than one transaction", "o identificador corresponde a mais de uma transação"),
    ("this would pass the limit {}: {} is left of {}", "isto ultrapassaria o limite {}: restam {} de {}"),
    (
        "the available balance does not cover the amount and its fee",
        "o saldo disponível não cobre o valor e a tarifa",
    ),
    (
        "the refund is more than what is left of the payment",
        "a devolução é maior que o saldo restante do pagamento",
    ),
    ("a payment can be refunded within 90 days only", "um pagamento só pode ser devolvido em até 90 dias"),
    (
        "a paid charge can't be canceled; refund it",
        "uma cobrança paga não pode ser cancelada; faça a devolução",
    ),
    (
        "an integrator that owes can't share its payments: what comes in pays what is owed first",
        "um integrador que tem dívida não pode dividir os seus pagamentos: o que entra abate primeiro a dívida",
    ),
    ("an expired charge can't be canceled", "uma cobrança expirada não pode ser cancelada"),
    ("a failed charge can't be canceled", "uma cobrança que falhou não pode ser cancelada"),
    (
        "the settlement provider has not confirmed this charge yet; try again in a moment",
        "o provedor de liquidação ainda não confirmou esta cobrança; tente de novo em instantes",
    ),
    (
        "this event has nowhere to go: its transaction has no postbackUrl, or it is one that is only listed",
        "este evento não tem destino: a transação não tem postbackUrl, ou ele é somente listado",
    ),
    (
        "there is a receipt of a withdrawal that is completed or returned only",
        "só há comprovante de um saque concluído ou devolvido",
    ),
    ("there is a receipt of a charge that is paid only", "só há comprovante de uma cobrança paga"),
    (
        "a receipt comes as text/html or application/pdf",
        "um comprovante vem como text/html ou application/pdf",
    ),
    (
        "this receipt has characters that its PDF can't show; it comes as text/html",
        "este comprovante tem caracteres que o PDF não mostra; ele vem como text/html",
    ),
    ("only a paid charge can be refunded", "somente uma cobrança paga pode ser devolvida"),
    ("the operation failed: {}", "a operação falhou: {}"),
    ("the settlement provider refused: {}", "o provedor de liquidação recusou: {}"),
    (
        "the settlement provider is not available; nothing was done",
        "o provedor de liquidação não está disponível; nada foi feito",
    ),
    (
        "the settlement provider gave no usable answer; the same request can be sent again",
        "o provedor de liquidação não deu uma resposta utilizável; a mesma requisição pode ser enviada de novo",
    ),
    ("too many concurrent changes of the same record", "alterações simultâneas demais do mesmo registro"),
    ("the query must not have a parameter twice", "a consulta não deve repetir um parâmetro"),
    ("the query must not have a parameter twice: {}", "a consulta não deve repetir um parâmetro: {}"),
    // What begins with the name of a field.
    ("{} must not name the charge's own integrator", "{} não deve indicar o próprio integrador da cobrança"),
    ("{} must not name a recipient twice", "{} não deve repetir um recebedor"),
    ("{} names no integrator that can be paid", "{} não indica um integrador que possa ser pago"),
    ("{} must be greater than zero", "{} deve ser maior que zero"),
    ("{} must have at most 2 decimals", "{} deve ter no máximo 2 casas decimais"),
    ("{} must be from 0.01 to 9999999999.99", "{} deve ser de 0.01 a 9999999999.99"),
    ("{} must be at most 9999999999.99", "{} deve ser no máximo 9999999999.99"),
    (
        "{} must be a decimal number such as 10.50, without sign or separators",
        "{} deve ser um número decimal como 10.50, sem sinal nem separadores",
    ),
    (
        "{} must be a CPF of 11 digits or a CNPJ of 14 characters",
        "{} deve ser um CPF de 11 dígitos ou um CNPJ de 14 caracteres",
    ),
    (
        "{} must not contain control, invisible or direction-changing characters",
        "{} não deve conter caracteres de controle, invisíveis ou que mudem a direção do texto",
    ),
    ("{} must have at most {} characters", "{} deve ter no máximo {} caracteres"),
    ("{} must be a whole number from {} to {}", "{} deve ser um número inteiro de {} a {}"),
    ("{} must be a time of RFC 3339, such as {}", "{} deve ser um instante conforme a RFC 3339, como {}"),
    (
        "{} must be a percentage from 0 to 100 with at most 4 decimals, such as 1.5",
        "{} deve ser uma porcentagem de 0 a 100 com no máximo 4 casas decimais, como 1.5",
    ),
    ("{} must name at most {} recipients", "{} deve indicar no máximo {} recebedores"),
    (
        "{} must have a recipient or a username, and not both",
        "{} deve ter um recipient ou um username, e não ambos",
    ),
    (
        "{} must have a percentage or an amount, and not both",
        "{} deve ter uma porcentagem ou um valor, e não ambos",
    ),
    ("{} must be an array of strings", "{} deve ser uma lista de textos"),
    ("{} must be an array of objects", "{} deve ser uma lista de objetos"),
    ("{} must be an object", "{} deve ser um objeto"),
    ("{} must be a string", "{} deve ser um texto"),
    ("{} must be a UUID", "{} deve ser um UUID"),
    ("{} must be the uuid of a transaction", "{} deve ser o uuid de uma transação"),
    ("{} must be well-formed Unicode", "{} deve ser Unicode bem formado"),
    (
        "{} must be a cursor of an earlier page of this list",
        "{} deve ser um cursor de uma página anterior desta lista",
    ),
    (
        "{} must be a cursor of an earlier page of your statement",
        "{} deve ser um cursor de uma página anterior do seu extrato",
    ),
    (
        "{} must be next_cursor of an earlier page of your events",
        "{} deve ser o next_cursor de uma página anterior dos seus eventos",
    ),
    ("{} must be true or false", "{} deve ser true ou false"),
    ("{} must be dead or all", "{} deve ser dead ou all"),
    ("{} must be later than since", "{} deve ser posterior a since"),
    ("{} must be one of {}", "{} deve ser um de {}"),
    (
        "cursor has no meaning for CSV, which has no pages",
        "cursor não tem sentido para CSV, que não tem páginas",
    ),
    ("size must be at least {} for this code", "size deve ser pelo menos {} para este código"),
    ("{} must not be empty", "{} não deve ser vazio"),
    ("{} is required", "{} é obrigatório"),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use actix_web::http::header::HeaderValue;
    use pix_domain::error::ServiceError;
    use pix_domain::limits::{LimitKind, Most, Standing};

    use super::*;

    fn asked(fields: &[&str], default: Language) -> Language {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(ACCEPT_LANGUAGE, HeaderValue::from_str(field).unwrap());
        }
        Language::of(&headers, default)
    }

    #[test]
    fn the_language_that_is_asked_for_most_counts_and_of_equals_the_first() {
        for default in [Language::English, Language::Portuguese] {
            for fields in [
                &["pt"][..],
                &["pt-BR,pt;q=0.9,en;q=0.8"],
                &["en;q=0.1, PT-br ; q=0.2"],
                &["fr", "pt-PT;q=0.001"],
                &["en;q=x, pt;q=0.1"],
                &["pt, en"],
            ] {
                assert_eq!(asked(fields, default), Language::Portuguese, "{fields:?}");
            }
            for fields in [
                &["en"][..],
                &["en-US,en;q=0.9"],
                &["de, en;q=0.8, pt;q=0.7"],
                &["EN-gb"],
                &["pt;q=0.5, en; q=0.501"],
                &["pt;q=0,en"],
                &["en;q=0.5, pt;q=0.5, en"],
            ] {
                assert_eq!(asked(fields, default), Language::English, "{fields:?}");
            }
            for fields in [
                &[][..],
                &[""],
                &["*"],
                &["de"],
                &["en;q=0"],
                &["enx"],
                &["pt;q=x"],
                &["de, *;q=0.5, pt;q=0.5"],
            ] {
                assert_eq!(asked(fields, default), default, "{fields:?}");
            }
        }
    }

    #[test]
    fn what_varies_in_a_sentence_is_kept() {
        for (english, portuguese) in [
            ("payer.name is required", "payer.name é obrigatório"),
            (
                "per_page must be a whole number from 1 to 100",
                "per_page deve ser um número inteiro de 1 a 100",
            ),
            ("too many requests; try again in 7 s", "requisições demais; tente de novo em 7 s"),
            ("amount must have at most 2 decimals", "amount deve ter no máximo 2 casas decimais"),
            ("split must name at most 10 recipients", "split deve indicar no máximo 10 recebedores"),
            ("split.1 must not name a recipient twice", "split.1 não deve repetir um recebedor"),
            (
                "split.0.percentage must be a percentage from 0 to 100 with at most 4 decimals, such as 1.5",
                "split.0.percentage deve ser uma porcentagem de 0 a 100 com no máximo 4 casas decimais, como 1.5",
            ),
            (
                "the parts must not sum above the net amount of the charge, 98.90",
                "as partes não devem somar mais que o valor líquido da cobrança, 98.90",
            ),
            ("description must have at most 140 characters", "description deve ter no máximo 140 caracteres"),
            ("something that nobody has said", "something that nobody has said"),
        ] {
            assert_eq!(Language::Portuguese.say(english), portuguese);
            assert_eq!(Language::English.say(english), english);
        }
    }

    #[test]
    fn both_forms_of_a_sentence_vary_in_as_many_places() {
        let mut seen = BTreeSet::new();
        for (english, portuguese) in PORTUGUESE {
            assert!(seen.insert(english), "{english} is there twice");
            assert_eq!(english.matches("{}").count(), portuguese.matches("{}").count(), "{english}");
            assert_eq!(Language::Portuguese.say(english), *portuguese, "another one is found for {english}");
        }
    }

    /// Texts in quotes of a file, but for its tests and comments.
    fn texts(path: &Path) -> Vec<String> {
        let code = std::fs::read_to_string(path).unwrap();
        let code = code.split("#[cfg(test)]\nmod tests").next().unwrap();
        let lines: Vec<&str> = code.lines().map(str::trim).filter(|line| !line.starts_with("//")).collect();
        let code = lines.join("\n").replace("'\"'", "").replace("\\\"", "'").replace("\\\n", "");
        code.split('"').skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// What a text with names in braces stands for, with something in their place.
    fn filled(text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((_, after)) = after.split_once('}') else { break };
            filled.extend([before, "something"]);
            rest = after;
        }
        filled + rest
    }

    #[test]
    fn every_sentence_about_a_request_has_a_portuguese_form() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut files: Vec<_> = [
            "error.rs",
            "invalid.rs",
            "list.rs",
            "metadata.rs",
            "money.rs",
            "party.rs",
            "party/key.rs",
            "splits.rs",
            "splits/service.rs",
            "text.rs",
        ]
        .map(|name| crates.join("domain/src").join(name))
        .to_vec();
        for folder in ["http/src", "http/src/v1", "http/src/v2"] {
            for entry in std::fs::read_dir(crates.join(folder)).unwrap() {
                let path = entry.unwrap().path();
                // Settings are judged in English, at the start; so is what is said of the interface.
                let is_code = path.extension().is_some_and(|ending| ending == "rs");
                if is_code
                    && !["config.rs", "limits.rs", "language.rs", "openapi.rs"]
                        .iter()
                        .any(|name| path.ends_with(name))
                {
                    files.push(path);
                }
            }
        }
        let (mut looked_at, mut missing) = (0, Vec::new());
        for path in files {
            for text in texts(&path) {
                let about_a_field = text.starts_with("must ") && text != "must ";
                let about_a_share = text.starts_with("split.{");
                let named = text.contains(" must ") || text.ends_with(" is required");
                if !(about_a_field || about_a_share || named) {
                    continue;
                }
                looked_at += 1;
                let sentence = crate::fields::sentence("field", &filled(&text));
                if Language::Portuguese.say(&sentence) == sentence {
                    missing.push(format!("{}: {text}", path.display()));
                }
            }
        }
        assert!(missing.is_empty(), "without a Portuguese form:\n{}", missing.join("\n"));
        assert!(looked_at > 50, "{looked_at}");
    }

    fn standing() -> Standing {
        let most = Most::new(LimitKind::PerDay, 100_000).ok();
        Standing {
            kind: LimitKind::PerDay,
            most,
            used: Some(99_999),
            holds: true,
            resets_at: None,
            then: None,
        }
    }

    #[test]
    fn every_refusal_of_a_use_case_has_a_portuguese_form() {
        let code = ("code".to_owned(), "message".to_owned());
        for error in [
            ServiceError::NotFound,
            ServiceError::ExternalIdConflict,
            ServiceError::IdempotencyMismatch,
            ServiceError::Ambiguous(Vec::new()),
            ServiceError::IntegratorSuspended,
            ServiceError::Restored,
            ServiceError::ClockNotRight,
            ServiceError::InsufficientBalance,
            ServiceError::LimitExceeded(Box::new(standing())),
            ServiceError::RefundExceedsPaid,
            ServiceError::RefundWindowClosed,
            ServiceError::ProviderRejected { code: code.0, message: code.1, charge: None },
            ServiceError::ProviderUnavailable,
            ServiceError::ProviderTimeout,
            ServiceError::Contention,
        ] {
            let sentence = error.to_string();
            assert_ne!(Language::Portuguese.say(&sentence), sentence);
        }
        for (_, title) in crate::error::TITLES {
            assert_ne!(Language::Portuguese.say(title), title);
        }
    }
}
