//! Currencies: what an amount is counted in, and how many decimals it has.
//!
//! Source: `docs/pricing.md`, "Rounding".

use bigdecimal::BigDecimal;
use serde::{Deserialize, Serialize};

use crate::decimal;
use crate::money::round_half_away_from_zero;

/// A currency, or a unit of an organization's own such as credits.
///
/// ```
/// use billing_domain::currency::Currency;
/// use billing_domain::decimal::{parse, plain};
///
/// let amount = parse("2.5675").unwrap();
/// let rounded = |code| plain(&Currency::iso_4217(code).unwrap().round(&amount));
/// assert_eq!(rounded("USD"), "2.57");
/// assert_eq!(rounded("JPY"), "3"); // the yen has no minor unit
/// assert_eq!(rounded("KWD"), "2.568"); // the dinar has a thousand fils
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Currency {
    /// What the API names it by: the ISO 4217 code, or the organization's own.
    pub code: String,
    /// Its name in English.
    pub name: String,
    /// What is put before an amount.
    pub symbol: String,
    /// Decimals of its minor unit: an invoice line is rounded to them.
    #[serde(with = "decimal::integer")]
    pub decimals: u8,
}

impl Currency {
    /// The ISO 4217 currency of this code, in capitals.
    pub fn iso_4217(code: &str) -> Option<Self> {
        let row = ISO_4217.binary_search_by(|row| row.0.cmp(code)).ok()?;
        ISO_4217.get(row).map(Self::from_row)
    }

    /// Every active ISO 4217 currency that has a minor unit (metals, baskets and test codes have none), by code.
    pub fn all_iso_4217() -> Vec<Self> {
        ISO_4217.iter().map(Self::from_row).collect()
    }

    /// The amount rounded to the minor unit, a half away from zero.
    pub fn round(&self, amount: &BigDecimal) -> BigDecimal {
        round_half_away_from_zero(amount, self.decimals)
    }

    fn from_row(&(code, name, symbol, decimals): &Row) -> Self {
        Self { code: code.to_owned(), name: name.to_owned(), symbol: symbol.to_owned(), decimals }
    }
}

/// Code, name, symbol, decimals.
type Row = (&'static str, &'static str, &'static str, u8);

/// ISO 4217's active list as of 2026, sorted by code.
#[rustfmt::skip]
const ISO_4217: &[Row] = &[
    ("AED", "United Arab Emirates Dirham", "AED", 2),
    ("AFN", "Afghan Afghani", "AFN", 2),
    ("ALL", "Albanian Lek", "ALL", 2),
    ("AMD", "Armenian Dram", "֏", 2),
    ("AOA", "Angolan Kwanza", "AOA", 2),
    ("ARS", "Argentine Peso", "ARS", 2),
    ("AUD", "Australian Dollar", "A$", 2),
    ("AWG", "Aruban Florin", "AWG", 2),
    ("AZN", "Azerbaijani Manat", "₼", 2),
    ("BAM", "Bosnia-Herzegovina Convertible Mark", "BAM", 2),
    ("BBD", "Barbadian Dollar", "BBD", 2),
    ("BDT", "Bangladeshi Taka", "৳", 2),
    ("BHD", "Bahraini Dinar", "BHD", 3),
    ("BIF", "Burundian Franc", "BIF", 0),
    ("BMD", "Bermudan Dollar", "BMD", 2),
    ("BND", "Brunei Dollar", "BND", 2),
    ("BOB", "Bolivian Boliviano", "BOB", 2),
    ("BOV", "Bolivian Mvdol", "BOV", 2),
    ("BRL", "Brazilian Real", "R$", 2),
    ("BSD", "Bahamian Dollar", "BSD", 2),
    ("BTN", "Bhutanese Ngultrum", "BTN", 2),
    ("BWP", "Botswanan Pula", "BWP", 2),
    ("BYN", "Belarusian Ruble", "BYN", 2),
    ("BZD", "Belize Dollar", "BZD", 2),
    ("CAD", "Canadian Dollar", "C$", 2),
    ("CDF", "Congolese Franc", "CDF", 2),
    ("CHE", "WIR Euro", "CHE", 2),
    ("CHF", "Swiss Franc", "CHF", 2),
    ("CHW", "WIR Franc", "CHW", 2),
    ("CLF", "Unit of Account (UF)", "CLF", 4),
    ("CLP", "Chilean Peso", "CLP", 0),
    ("CNY", "Yuan", "¥", 2),
    ("COP", "Colombian Peso", "COP", 2),
    ("COU", "Colombian Real Value Unit", "COU", 2),
    ("CRC", "Costa Rican Colón", "₡", 2),
    ("CUP", "Cuban Peso", "CUP", 2),
    ("CVE", "Cape Verdean Escudo", "CVE", 2),
    ("CZK", "Czech Koruna", "Kč", 2),
    ("DJF", "Djiboutian Franc", "DJF", 0),
    ("DKK", "Danish Krone", "kr", 2),
    ("DOP", "Dominican Peso", "DOP", 2),
    ("DZD", "Algerian Dinar", "DZD", 2),
    ("EGP", "Egyptian Pound", "EGP", 2),
    ("ERN", "Eritrean Nakfa", "ERN", 2),
    ("ETB", "Ethiopian Birr", "ETB", 2),
    ("EUR", "Euro", "€", 2),
    ("FJD", "Fijian Dollar", "FJD", 2),
    ("FKP", "Falkland Islands Pound", "FKP", 2),
    ("GBP", "Pound", "£", 2),
    ("GEL", "Georgian Lari", "₾", 2),
    ("GHS", "Ghanaian Cedi", "GH₵", 2),
    ("GIP", "Gibraltar Pound", "GIP", 2),
    ("GMD", "Gambian Dalasi", "GMD", 2),
    ("GNF", "Guinean Franc", "GNF", 0),
    ("GTQ", "Guatemalan Quetzal", "GTQ", 2),
    ("GYD", "Guyanaese Dollar", "GYD", 2),
    ("HKD", "Hong Kong Dollar", "HK$", 2),
    ("HNL", "Honduran Lempira", "HNL", 2),
    ("HTG", "Haitian Gourde", "HTG", 2),
    ("HUF", "Hungarian Forint", "Ft", 2),
    ("IDR", "Indonesian Rupiah", "IDR", 2),
    ("ILS", "Israeli New Shekel", "₪", 2),
    ("INR", "Indian Rupee", "₹", 2),
    ("IQD", "Iraqi Dinar", "IQD", 3),
    ("IRR", "Iranian Rial", "IRR", 2),
    ("ISK", "Icelandic Króna", "kr", 0),
    ("JMD", "Jamaican Dollar", "JMD", 2),
    ("JOD", "Jordanian Dinar", "JOD", 3),
    ("JPY", "Japanese Yen", "¥", 0),
    ("KES", "Kenyan Shilling", "KSh", 2),
    ("KGS", "Kyrgystani Som", "KGS", 2),
    ("KHR", "Cambodian Riel", "៛", 2),
    ("KMF", "Comorian Franc", "KMF", 0),
    ("KPW", "North Korean Won", "KPW", 2),
    ("KRW", "South Korean Won", "₩", 0),
    ("KWD", "Kuwaiti Dinar", "KWD", 3),
    ("KYD", "Cayman Islands Dollar", "KYD", 2),
    ("KZT", "Kazakhstani Tenge", "₸", 2),
    ("LAK", "Laotian Kip", "₭", 2),
    ("LBP", "Lebanese Pound", "LBP", 2),
    ("LKR", "Sri Lankan Rupee", "LKR", 2),
    ("LRD", "Liberian Dollar", "LRD", 2),
    ("LSL", "Lesotho Loti", "LSL", 2),
    ("LYD", "Libyan Dinar", "LYD", 3),
    ("MAD", "Moroccan Dirham", "MAD", 2),
    ("MDL", "Moldovan Leu", "MDL", 2),
    ("MGA", "Malagasy Ariary", "MGA", 2),
    ("MKD", "Macedonian Denar", "MKD", 2),
    ("MMK", "Myanmar Kyat", "MMK", 2),
    ("MNT", "Mongolian Tugrik", "₮", 2),
    ("MOP", "Macanese Pataca", "MOP", 2),
    ("MRU", "Mauritanian Ouguiya", "MRU", 2),
    ("MUR", "Mauritian Rupee", "MUR", 2),
    ("MVR", "Maldivian Rufiyaa", "MVR", 2),
    ("MWK", "Malawian Kwacha", "MWK", 2),
    ("MXN", "Mexican Peso", "$", 2),
    ("MXV", "Mexican Investment Unit", "MXV", 2),
    ("MYR", "Malaysian Ringgit", "MYR", 2),
    ("MZN", "Mozambican Metical", "MZN", 2),
    ("NAD", "Namibian Dollar", "NAD", 2),
    ("NGN", "Nigerian Naira", "₦", 2),
    ("NIO", "Nicaraguan Córdoba", "NIO", 2),
    ("NOK", "Norwegian Krone", "kr", 2),
    ("NPR", "Nepalese Rupee", "NPR", 2),
    ("NZD", "New Zealand Dollar", "NZ$", 2),
    ("OMR", "Omani Rial", "OMR", 3),
    ("PAB", "Panamanian Balboa", "PAB", 2),
    ("PEN", "Peruvian Sol", "PEN", 2),
    ("PGK", "Papua New Guinean Kina", "PGK", 2),
    ("PHP", "Philippine Peso", "₱", 2),
    ("PKR", "Pakistani Rupee", "PKR", 2),
    ("PLN", "Polish Zloty", "zł", 2),
    ("PYG", "Paraguayan Guarani", "₲", 0),
    ("QAR", "Qatari Riyal", "QAR", 2),
    ("RON", "Romanian Leu", "RON", 2),
    ("RSD", "Serbian Dinar", "RSD", 2),
    ("RUB", "Russian Ruble", "₽", 2),
    ("RWF", "Rwandan Franc", "RWF", 0),
    ("SAR", "Saudi Riyal", "SAR", 2),
    ("SBD", "Solomon Islands Dollar", "SBD", 2),
    ("SCR", "Seychellois Rupee", "SCR", 2),
    ("SDG", "Sudanese Pound", "SDG", 2),
    ("SEK", "Swedish Krona", "kr", 2),
    ("SGD", "Singapore Dollar", "S$", 2),
    ("SHP", "St. Helena Pound", "SHP", 2),
    ("SLE", "Sierra Leonean Leone", "SLE", 2),
    ("SOS", "Somali Shilling", "SOS", 2),
    ("SRD", "Surinamese Dollar", "SRD", 2),
    ("SSP", "South Sudanese Pound", "SSP", 2),
    ("STN", "São Tomé & Príncipe Dobra", "STN", 2),
    ("SVC", "Salvadoran Colón", "SVC", 2),
    ("SYP", "Syrian Pound", "SYP", 2),
    ("SZL", "Swazi Lilangeni", "SZL", 2),
    ("THB", "Thai Baht", "฿", 2),
    ("TJS", "Tajikistani Somoni", "TJS", 2),
    ("TMT", "Turkmenistani Manat", "TMT", 2),
    ("TND", "Tunisian Dinar", "TND", 3),
    ("TOP", "Tongan Paʻanga", "TOP", 2),
    ("TRY", "Turkish Lira", "₺", 2),
    ("TTD", "Trinidad & Tobago Dollar", "TTD", 2),
    ("TWD", "New Taiwan Dollar", "NT$", 2),
    ("TZS", "Tanzanian Shilling", "TSh", 2),
    ("UAH", "Ukrainian Hryvnia", "₴", 2),
    ("UGX", "Ugandan Shilling", "UGX", 0),
    ("USD", "US Dollar", "$", 2),
    ("USN", "US Dollar (Next Day)", "USN", 2),
    ("UYI", "Uruguayan Peso (Indexed Units)", "UYI", 0),
    ("UYU", "Uruguayan Peso", "UYU", 2),
    ("UYW", "Uruguayan Nominal Wage Index Unit", "UYW", 4),
    ("UZS", "Uzbekistani Som", "UZS", 2),
    ("VED", "Digital Bolívar", "VED", 2),
    ("VES", "Venezuelan Bolívar", "VES", 2),
    ("VND", "Vietnamese Dong", "₫", 0),
    ("VUV", "Vanuatu Vatu", "VUV", 0),
    ("WST", "Samoan Tala", "WST", 2),
    ("XAD", "Arab Accounting Dinar", "XAD", 2),
    ("XAF", "Central African CFA Franc", "FCFA", 0),
    ("XCD", "East Caribbean Dollar", "EC$", 2),
    ("XCG", "Caribbean Guilder", "XCG", 2),
    ("XOF", "West African CFA Franc", "F CFA", 0),
    ("XPF", "CFP Franc", "CFPF", 0),
    ("YER", "Yemeni Rial", "YER", 2),
    ("ZAR", "South African Rand", "R", 2),
    ("ZMW", "Zambian Kwacha", "ZMW", 2),
    ("ZWG", "Zimbabwe Gold", "ZWG", 2),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_units_are_those_of_iso_4217() {
        #[rustfmt::skip]
        let cases = [
            // code, decimals, why
            ("USD",  Some(2),  "a hundred cents"),
            ("JPY",  Some(0),  "the yen has none"),
            ("KRW",  Some(0),  "nor the won"),
            ("UGX",  Some(0),  "nor the Ugandan shilling"),
            ("ISK",  Some(0),  "nor the króna"),
            ("KWD",  Some(3),  "a thousand fils"),
            ("TND",  Some(3),  "a thousand millimes"),
            ("CLF",  Some(4),  "a unit of account"),
            ("MGA",  Some(2),  "five iraimbilanja, which ISO writes as two decimals"),
            ("usd",  None,     "codes are capitals"),
            ("XAU",  None,     "gold has no minor unit"),
            ("HRK",  None,     "replaced by the euro"),
            ("",     None,     "nothing"),
        ];
        for (code, decimals, why) in cases {
            assert_eq!(Currency::iso_4217(code).map(|currency| currency.decimals), decimals, "{code}: {why}");
        }
    }

    #[test]
    fn the_list_is_sorted_and_each_entry_is_found() {
        let all = Currency::all_iso_4217();
        assert!(all.is_sorted_by(|left, right| left.code < right.code));
        assert_eq!(all.len(), ISO_4217.len());
        for currency in all {
            assert!(currency.code.len() == 3 && !currency.name.is_empty() && !currency.symbol.is_empty());
            assert_eq!(Currency::iso_4217(&currency.code), Some(currency));
        }
    }

    #[test]
    fn counts_of_minor_units() {
        let count = |decimals| ISO_4217.iter().filter(|row| row.3 == decimals).count();
        assert_eq!((count(0), count(2), count(3), count(4)), (17, 139, 7, 2), "as published");
    }
}
