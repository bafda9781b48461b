//! The words of the payment page.

use pix_domain::money::Cents;
use pix_domain::time::Timestamp;

use crate::language::Language;
use crate::time;

/// What the page says.
pub(super) struct Words {
    pub(super) title: &'static str,
    pub(super) to: &'static str,
    pub(super) amount: &'static str,
    pub(super) received: &'static str,
    pub(super) creating: &'static str,
    pub(super) pending: &'static str,
    pub(super) over: &'static str,
    pub(super) paid: &'static str,
    pub(super) expired: &'static str,
    pub(super) canceled: &'static str,
    pub(super) failed: &'static str,
    pub(super) expires: &'static str,
    pub(super) time_left: &'static str,
    pub(super) how: &'static str,
    pub(super) qr_label: &'static str,
    pub(super) code_label: &'static str,
    pub(super) copy: &'static str,
    pub(super) copied: &'static str,
    pub(super) not_copied: &'static str,
    pub(super) refreshes: &'static str,
    pub(super) not_found: &'static str,
    pub(super) not_found_why: &'static str,
    pub(super) busy: &'static str,
    pub(super) busy_why: &'static str,
    pub(super) wrong: &'static str,
    pub(super) wrong_why: &'static str,
}

static PORTUGUESE: Words = Words {
    title: "Pagar com Pix",
    to: "Para",
    amount: "Valor",
    received: "Valor recebido",
    creating: "O código está sendo preparado…",
    pending: "Aguardando o pagamento",
    over: "O prazo terminou. Verificando se o pagamento chegou…",
    paid: "Pagamento recebido",
    expired: "O prazo terminou. Esta cobrança não pode mais ser paga.",
    canceled: "Esta cobrança foi cancelada.",
    failed: "Esta cobrança não está disponível.",
    expires: "Vence em",
    time_left: "Tempo restante",
    how: "Abra o aplicativo do seu banco, escolha pagar com Pix e leia o QR Code, ou copie o código.",
    qr_label: "QR Code Pix desta cobrança",
    code_label: "Pix copia e cola",
    copy: "Copiar código",
    copied: "Código copiado",
    not_copied: "Selecione o código e copie",
    refreshes: "Esta página se atualiza sozinha.",
    not_found: "Página não encontrada",
    not_found_why: "Confira o endereço com quem enviou a cobrança.",
    busy: "Muitos acessos agora",
    busy_why: "Esta página tenta de novo em instantes.",
    wrong: "Algo deu errado",
    wrong_why: "Tente de novo em instantes.",
};

static ENGLISH: Words = Words {
    title: "Pay with Pix",
    to: "To",
    amount: "Amount",
    received: "Amount received",
    creating: "The code is being prepared…",
    pending: "Waiting for the payment",
    over: "The time is over. Looking whether the payment has come…",
    paid: "Payment received",
    expired: "The time is over. This charge can no longer be paid.",
    canceled: "This charge was canceled.",
    failed: "This charge is not available.",
    expires: "Expires on",
    time_left: "Time left",
    how: "Open your bank's app, choose to pay with Pix and scan the QR code, or copy the code.",
    qr_label: "Pix QR code of this charge",
    code_label: "Pix copy and paste",
    copy: "Copy code",
    copied: "Code copied",
    not_copied: "Select the code and copy it",
    refreshes: "This page refreshes by itself.",
    not_found: "Page not found",
    not_found_why: "Check the address with whoever sent you the charge.",
    busy: "Too many visitors right now",
    busy_why: "This page tries again in a moment.",
    wrong: "Something went wrong",
    wrong_why: "Try again in a moment.",
};

impl Language {
    pub(super) fn words(self) -> &'static Words {
        match self {
            Self::Portuguese => &PORTUGUESE,
            Self::English => &ENGLISH,
        }
    }

    /// `R$ 1.234,50` or `R$ 1,234.50`, with a space that no line is broken at.
    pub(crate) fn money(self, cents: Cents) -> String {
        let plain = cents.to_string();
        let (reais, cents) = plain.split_once('.').unwrap_or((&plain, "00"));
        let (thousands, point) = match self {
            Self::Portuguese => ('.', ','),
            Self::English => (',', '.'),
        };
        let mut text = String::from("R$\u{a0}");
        for (place, digit) in reais.chars().enumerate() {
            if place > 0 && (reais.len() - place).is_multiple_of(3) {
                text.push(thousands);
            }
            text.push(digit);
        }
        text.push(point);
        text.push_str(cents);
        text
    }

    /// A moment in Brazil's capital.
    pub(super) fn moment(self, at: Timestamp) -> String {
        match self {
            Self::Portuguese => time::sao_paulo_as(at, "%d/%m/%Y às %H:%M (horário de Brasília)"),
            Self::English => time::sao_paulo_as(at, "%B %-d, %Y, %H:%M (Brasília time)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_and_moments_are_written_as_the_language_does() {
        let cents = |cents| Cents::new(cents).unwrap();
        for (amount, portuguese, english) in [
            (1, "R$\u{a0}0,01", "R$\u{a0}0.01"),
            (12_345, "R$\u{a0}123,45", "R$\u{a0}123.45"),
            (123_450, "R$\u{a0}1.234,50", "R$\u{a0}1,234.50"),
            (999_999_999_999, "R$\u{a0}9.999.999.999,99", "R$\u{a0}9,999,999,999.99"),
        ] {
            assert_eq!(Language::Portuguese.money(cents(amount)), portuguese);
            assert_eq!(Language::English.money(cents(amount)), english);
        }
        let at = Timestamp::from_micros(1_791_348_065_000_001);
        assert_eq!(Language::Portuguese.moment(at), "07/10/2026 às 01:41 (horário de Brasília)");
        assert_eq!(Language::English.moment(at), "October 7, 2026, 01:41 (Brasília time)");
    }
}
