//! The time zones a customer or an organization may be in: names of the IANA database.

use crate::nearest;

/// Every accepted zone name, in alphabetical order.
#[rustfmt::skip]
pub const NAMES: &[&str] = &[
    "Africa/Abidjan", "Africa/Accra", "Africa/Addis_Ababa", "Africa/Algiers", "Africa/Asmara", "Africa/Bamako",
    "Africa/Bangui", "Africa/Banjul", "Africa/Bissau", "Africa/Blantyre", "Africa/Brazzaville", "Africa/Bujumbura",
    "Africa/Cairo", "Africa/Casablanca", "Africa/Ceuta", "Africa/Conakry", "Africa/Dakar", "Africa/Dar_es_Salaam",
    "Africa/Djibouti", "Africa/Douala", "Africa/El_Aaiun", "Africa/Freetown", "Africa/Gaborone", "Africa/Harare",
    "Africa/Johannesburg", "Africa/Juba", "Africa/Kampala", "Africa/Khartoum", "Africa/Kigali", "Africa/Kinshasa",
    "Africa/Lagos", "Africa/Libreville", "Africa/Lome", "Africa/Luanda", "Africa/Lubumbashi", "Africa/Lusaka",
    "Africa/Malabo", "Africa/Maputo", "Africa/Maseru", "Africa/Mbabane", "Africa/Mogadishu", "Africa/Monrovia",
    "Africa/Nairobi", "Africa/Ndjamena", "Africa/Niamey", "Africa/Nouakchott", "Africa/Ouagadougou",
    "Africa/Porto-Novo", "Africa/Sao_Tome", "Africa/Tripoli", "Africa/Tunis", "Africa/Windhoek", "America/Adak",
    "America/Anchorage", "America/Anguilla", "America/Antigua", "America/Araguaina",
    "America/Argentina/Buenos_Aires", "America/Argentina/Catamarca", "America/Argentina/Cordoba",
    "America/Argentina/Jujuy", "America/Argentina/La_Rioja", "America/Argentina/Mendoza",
    "America/Argentina/Rio_Gallegos", "America/Argentina/Salta", "America/Argentina/San_Juan",
    "America/Argentina/San_Luis", "America/Argentina/Tucuman", "America/Argentina/Ushuaia", "America/Aruba",
    "America/Asuncion", "America/Atikokan", "America/Bahia", "America/Bahia_Banderas", "America/Barbados",
    "America/Belem", "America/Belize", "America/Blanc-Sablon", "America/Boa_Vista", "America/Bogota",
    "America/Boise", "America/Cambridge_Bay", "America/Campo_Grande", "America/Cancun", "America/Caracas",
    "America/Cayenne", "America/Cayman", "America/Chicago", "America/Chihuahua", "America/Ciudad_Juarez",
    "America/Costa_Rica", "America/Creston", "America/Cuiaba", "America/Curacao", "America/Danmarkshavn",
    "America/Dawson", "America/Dawson_Creek", "America/Denver", "America/Detroit", "America/Dominica",
    "America/Edmonton", "America/Eirunepe", "America/El_Salvador", "America/Fort_Nelson", "America/Fortaleza",
    "America/Glace_Bay", "America/Goose_Bay", "America/Grand_Turk", "America/Grenada", "America/Guadeloupe",
    "America/Guatemala", "America/Guayaquil", "America/Guyana", "America/Halifax", "America/Havana",
    "America/Hermosillo", "America/Indiana/Indianapolis", "America/Indiana/Knox", "America/Indiana/Marengo",
    "America/Indiana/Petersburg", "America/Indiana/Tell_City", "America/Indiana/Vevay", "America/Indiana/Vincennes",
    "America/Indiana/Winamac", "America/Inuvik", "America/Iqaluit", "America/Jamaica", "America/Juneau",
    "America/Kentucky/Louisville", "America/Kentucky/Monticello", "America/Kralendijk", "America/La_Paz",
    "America/Lima", "America/Los_Angeles", "America/Lower_Princes", "America/Maceio", "America/Managua",
    "America/Manaus", "America/Marigot", "America/Martinique", "America/Matamoros", "America/Mazatlan",
    "America/Menominee", "America/Merida", "America/Metlakatla", "America/Mexico_City", "America/Miquelon",
    "America/Moncton", "America/Monterrey", "America/Montevideo", "America/Montserrat", "America/Nassau",
    "America/New_York", "America/Nome", "America/Noronha", "America/North_Dakota/Beulah",
    "America/North_Dakota/Center", "America/North_Dakota/New_Salem", "America/Nuuk", "America/Ojinaga",
    "America/Panama", "America/Paramaribo", "America/Phoenix", "America/Port-au-Prince", "America/Port_of_Spain",
    "America/Porto_Velho", "America/Puerto_Rico", "America/Punta_Arenas", "America/Rankin_Inlet", "America/Recife",
    "America/Regina", "America/Resolute", "America/Rio_Branco", "America/Santarem", "America/Santiago",
    "America/Santo_Domingo", "America/Sao_Paulo", "America/Scoresbysund", "America/Sitka", "America/St_Barthelemy",
    "America/St_Johns", "America/St_Kitts", "America/St_Lucia", "America/St_Thomas", "America/St_Vincent",
    "America/Swift_Current", "America/Tegucigalpa", "America/Thule", "America/Tijuana", "America/Toronto",
    "America/Tortola", "America/Vancouver", "America/Whitehorse", "America/Winnipeg", "America/Yakutat",
    "America/Yellowknife", "Antarctica/Casey", "Antarctica/Davis", "Antarctica/DumontDUrville",
    "Antarctica/Macquarie", "Antarctica/Mawson", "Antarctica/McMurdo", "Antarctica/Palmer", "Antarctica/Rothera",
    "Antarctica/Syowa", "Antarctica/Troll", "Antarctica/Vostok", "Arctic/Longyearbyen", "Asia/Aden", "Asia/Almaty",
    "Asia/Amman", "Asia/Anadyr", "Asia/Aqtau", "Asia/Aqtobe", "Asia/Ashgabat", "Asia/Atyrau", "Asia/Baghdad",
    "Asia/Bahrain", "Asia/Baku", "Asia/Bangkok", "Asia/Barnaul", "Asia/Beirut", "Asia/Bishkek", "Asia/Brunei",
    "Asia/Chita", "Asia/Choibalsan", "Asia/Colombo", "Asia/Damascus", "Asia/Dhaka", "Asia/Dili", "Asia/Dubai",
    "Asia/Dushanbe", "Asia/Famagusta", "Asia/Gaza", "Asia/Hebron", "Asia/Ho_Chi_Minh", "Asia/Hong_Kong", "Asia/Hovd",
    "Asia/Irkutsk", "Asia/Jakarta", "Asia/Jayapura", "Asia/Jerusalem", "Asia/Kabul", "Asia/Kamchatka",
    "Asia/Karachi", "Asia/Kathmandu", "Asia/Khandyga", "Asia/Kolkata", "Asia/Krasnoyarsk", "Asia/Kuala_Lumpur",
    "Asia/Kuching", "Asia/Kuwait", "Asia/Macau", "Asia/Magadan", "Asia/Makassar", "Asia/Manila", "Asia/Muscat",
    "Asia/Nicosia", "Asia/Novokuznetsk", "Asia/Novosibirsk", "Asia/Omsk", "Asia/Oral", "Asia/Phnom_Penh",
    "Asia/Pontianak", "Asia/Pyongyang", "Asia/Qatar", "Asia/Qostanay", "Asia/Qyzylorda", "Asia/Riyadh",
    "Asia/Sakhalin", "Asia/Samarkand", "Asia/Seoul", "Asia/Shanghai", "Asia/Singapore", "Asia/Srednekolymsk",
    "Asia/Taipei", "Asia/Tashkent", "Asia/Tbilisi", "Asia/Tehran", "Asia/Thimphu", "Asia/Tokyo", "Asia/Tomsk",
    "Asia/Ulaanbaatar", "Asia/Urumqi", "Asia/Ust-Nera", "Asia/Vientiane", "Asia/Vladivostok", "Asia/Yakutsk",
    "Asia/Yangon", "Asia/Yekaterinburg", "Asia/Yerevan", "Atlantic/Azores", "Atlantic/Bermuda", "Atlantic/Canary",
    "Atlantic/Cape_Verde", "Atlantic/Faroe", "Atlantic/Madeira", "Atlantic/Reykjavik", "Atlantic/South_Georgia",
    "Atlantic/St_Helena", "Atlantic/Stanley", "Australia/Adelaide", "Australia/Brisbane", "Australia/Broken_Hill",
    "Australia/Darwin", "Australia/Eucla", "Australia/Hobart", "Australia/Lindeman", "Australia/Lord_Howe",
    "Australia/Melbourne", "Australia/Perth", "Australia/Sydney", "Canada/Atlantic", "Canada/Central",
    "Canada/Eastern", "Canada/Mountain", "Canada/Newfoundland", "Canada/Pacific", "Europe/Amsterdam",
    "Europe/Andorra", "Europe/Astrakhan", "Europe/Athens", "Europe/Belgrade", "Europe/Berlin", "Europe/Bratislava",
    "Europe/Brussels", "Europe/Bucharest", "Europe/Budapest", "Europe/Busingen", "Europe/Chisinau",
    "Europe/Copenhagen", "Europe/Dublin", "Europe/Gibraltar", "Europe/Guernsey", "Europe/Helsinki",
    "Europe/Isle_of_Man", "Europe/Istanbul", "Europe/Jersey", "Europe/Kaliningrad", "Europe/Kirov", "Europe/Kyiv",
    "Europe/Lisbon", "Europe/Ljubljana", "Europe/London", "Europe/Luxembourg", "Europe/Madrid", "Europe/Malta",
    "Europe/Mariehamn", "Europe/Minsk", "Europe/Monaco", "Europe/Moscow", "Europe/Oslo", "Europe/Paris",
    "Europe/Podgorica", "Europe/Prague", "Europe/Riga", "Europe/Rome", "Europe/Samara", "Europe/San_Marino",
    "Europe/Sarajevo", "Europe/Saratov", "Europe/Simferopol", "Europe/Skopje", "Europe/Sofia", "Europe/Stockholm",
    "Europe/Tallinn", "Europe/Tirane", "Europe/Ulyanovsk", "Europe/Vaduz", "Europe/Vatican", "Europe/Vienna",
    "Europe/Vilnius", "Europe/Volgograd", "Europe/Warsaw", "Europe/Zagreb", "Europe/Zurich", "GMT",
    "Indian/Antananarivo", "Indian/Chagos", "Indian/Christmas", "Indian/Cocos", "Indian/Comoro", "Indian/Kerguelen",
    "Indian/Mahe", "Indian/Maldives", "Indian/Mauritius", "Indian/Mayotte", "Indian/Reunion", "Pacific/Apia",
    "Pacific/Auckland", "Pacific/Bougainville", "Pacific/Chatham", "Pacific/Chuuk", "Pacific/Easter",
    "Pacific/Efate", "Pacific/Fakaofo", "Pacific/Fiji", "Pacific/Funafuti", "Pacific/Galapagos", "Pacific/Gambier",
    "Pacific/Guadalcanal", "Pacific/Guam", "Pacific/Honolulu", "Pacific/Kanton", "Pacific/Kiritimati",
    "Pacific/Kosrae", "Pacific/Kwajalein", "Pacific/Majuro", "Pacific/Marquesas", "Pacific/Midway", "Pacific/Nauru",
    "Pacific/Niue", "Pacific/Norfolk", "Pacific/Noumea", "Pacific/Pago_Pago", "Pacific/Palau", "Pacific/Pitcairn",
    "Pacific/Pohnpei", "Pacific/Port_Moresby", "Pacific/Rarotonga", "Pacific/Saipan", "Pacific/Tahiti",
    "Pacific/Tarawa", "Pacific/Tongatapu", "Pacific/Wake", "Pacific/Wallis", "US/Alaska", "US/Arizona", "US/Central",
    "US/Eastern", "US/Hawaii", "US/Mountain", "US/Pacific", "UTC",
];

/// Whether `name` is an accepted zone name. Names are compared as they are written.
pub fn is_known(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok()
}

/// What clocks are called that is no place: zones that keep such a time, those with the most people first.
#[rustfmt::skip]
const ABBREVIATIONS: &[(&[&str], &[&str])] = &[
    (&["CET", "CEST", "MET", "MEZ"], &["Europe/Berlin", "Europe/Paris", "Europe/Madrid"]),
    (&["EET", "EEST"],               &["Europe/Kyiv", "Europe/Bucharest", "Europe/Athens"]),
    (&["WET", "WEST"],               &["Europe/Lisbon", "Atlantic/Canary", "Atlantic/Madeira"]),
    (&["BST"],                       &["Europe/London"]),
    (&["MSK"],                       &["Europe/Moscow"]),
    (&["ET", "EST", "EDT"],          &["America/New_York", "America/Toronto", "America/Detroit"]),
    (&["CT", "CDT"],                 &["America/Chicago", "America/Winnipeg", "America/Matamoros"]),
    (&["CST"],                       &["America/Chicago", "Asia/Shanghai", "America/Mexico_City"]),
    (&["MT", "MST", "MDT"],          &["America/Denver", "America/Phoenix", "America/Edmonton"]),
    (&["PT", "PST", "PDT"],          &["America/Los_Angeles", "America/Tijuana", "America/Vancouver"]),
    (&["IST"],                       &["Asia/Kolkata", "Asia/Jerusalem", "Europe/Dublin"]),
    (&["JST"],                       &["Asia/Tokyo"]),
    (&["KST"],                       &["Asia/Seoul"]),
    (&["SGT"],                       &["Asia/Singapore"]),
    (&["AEST", "AEDT"],              &["Australia/Sydney", "Australia/Melbourne", "Australia/Brisbane"]),
    (&["NZST", "NZDT"],              &["Pacific/Auckland"]),
    (&["Z", "UCT", "ZULU"],          &["UTC"]),
];

/// What is said of a zone that there is not: which ones may have been meant, by name, place or abbreviation.
pub fn unknown(name: &str) -> String {
    let letters: String = name.trim().chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_uppercase();
    let of_clocks = ABBREVIATIONS.iter().find(|(short, _)| short.contains(&letters.as_str()));
    let has_more = name.trim().len() > letters.len();
    let near: Vec<&str> = match of_clocks {
        // `CET+1`, not the beginning of a longer name.
        Some((_, zones)) if !has_more || name.contains(['+', '-']) => zones.to_vec(),
        _ => {
            let whole = nearest::near(name, NAMES.iter().map(|known| (*known, (*known).to_owned())));
            let place = |known: &&'static str| (*known, known.rsplit('/').next().unwrap_or_default().to_owned());
            if whole.is_empty() { nearest::near(name, NAMES.iter().map(place)) } else { whole }
        }
    };
    let told: Vec<String> = near.into_iter().map(str::to_owned).collect();
    let example = if told.is_empty() { " Names are like Europe/Berlin." } else { "" };
    format!("{} is not a known time zone.{}{example}", nearest::quoted(name), nearest::question(&told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_that_was_meant_is_asked_for() {
        #[rustfmt::skip]
        let cases = [
            // name,            what is said behind,                                                  why
            ("CET+1",           " Did you mean Europe/Berlin, Europe/Paris or Europe/Madrid?",        "what clocks are called"),
            ("pst",             " Did you mean America/Los_Angeles, America/Tijuana or America/Vancouver?", "in small letters"),
            ("europe/zurich",   " Did you mean Europe/Zurich?",                                       "small letters"),
            ("Berlin",          " Did you mean Europe/Berlin?",                                       "a place alone"),
            ("New York",        " Did you mean America/New_York?",                                    "as people write it"),
            ("Europe/Zuerich",  " Did you mean Europe/Zurich?",                                       "a letter too many"),
            ("Mars/Olympus",    " Names are like Europe/Berlin.",                                     "nothing is near"),
        ];
        for (name, expected, why) in cases {
            let said = unknown(name);
            assert_eq!(said, format!("`{name}` is not a known time zone.{expected}"), "{why}");
        }
        for zone in ABBREVIATIONS.iter().flat_map(|(_, zones)| *zones) {
            assert!(is_known(zone), "{zone}");
        }
    }

    #[test]
    fn the_list_is_in_order_and_complete() {
        assert!(NAMES.is_sorted());
        assert_eq!(NAMES.len(), 434);
        assert!(is_known("Europe/Zurich") && is_known("UTC") && is_known("GMT"));
        assert!(!is_known("europe/zurich") && !is_known("Mars/Olympus_Mons"));
    }
}
