package nightgen

import "strings"

// market is one market of the group and how its traffic system writes.
type market struct {
	code, name string
	stations   []string
	form       form
	pack       Pack
	crlf, bom  bool
	style      int // of keys, house numbers and durations
}

type form string

const (
	ndjson form = "ndjson"
	array  form = "json"
	csv    form = "csv"
	tsv    form = "tsv"
)

func (m market) slug() string { return strings.ReplaceAll(strings.ToLower(m.name), " ", "-") }

// markets are 36 places that do not exist, with 40 stations. The codes lie
// above those in use for real markets.
var markets = []market{
	{"901", "Harrow Falls", []string{"WQJX-FM", "WQJX-TV"}, ndjson, Gzip, false, false, 0},
	{"902", "Port Selwyn", []string{"WZQB"}, ndjson, Zstd, false, false, 1},
	{"903", "Cinder Bay", []string{"KJXZ-DT2"}, ndjson, Gzip, true, false, 2},
	{"904", "Marlow Ridge", []string{"KQVJ-FM"}, csv, Gzip, true, true, 3},
	{"905", "Tansy", []string{"K287ZQ"}, ndjson, Plain, false, false, 0},
	{"906", "Greater Ondine", []string{"WXQZ-TV", "WXQJ-FM"}, ndjson, Zstd, false, false, 1},
	{"907", "Lake Verity", []string{"WJZV"}, ndjson, Gzip, false, true, 2},
	{"908", "Saltgrass", []string{"KZJW-FM"}, ndjson, Gzip, false, false, 3},
	{"909", "Dunmore Flats", []string{"KXJQ-LD"}, array, Gzip, false, false, 0},
	{"910", "Old Ferry", []string{"WQZF"}, ndjson, Gzip, false, false, 1},
	{"911", "Bellweather", []string{"WBZX-FM"}, ndjson, Zstd, true, false, 2},
	{"912", "Copper Notch", []string{"KQCZ-TV"}, ndjson, Gzip, false, false, 3},
	{"913", "San Aurelio", []string{"KZAQ-FM", "KZAJ"}, csv, Zstd, false, false, 0},
	{"914", "Whitlock", []string{"WWQJ"}, ndjson, Gzip, false, false, 1},
	{"915", "Pine Hollow", []string{"KPZX-DT"}, ndjson, Gzip, true, true, 2},
	{"916", "Esker County", []string{"WZEQ-FM"}, tsv, Gzip, true, false, 3},
	{"917", "Fort Delaney", []string{"KQFJ-TV"}, ndjson, Zstd, false, false, 0},
	{"918", "Little Quill", []string{"W214XJ"}, csv, Plain, true, false, 1},
	{"919", "Maren", []string{"WMJQ-CD"}, ndjson, Gzip, false, false, 2},
	{"920", "North Tilden", []string{"KTQZ-FM"}, ndjson, Gzip, false, false, 3},
	{"921", "Granby Shoals", []string{"WGZJ"}, ndjson, Gzip, false, false, 0},
	{"922", "Vale of Ash", []string{"WVXQ-TV", "WVXJ-FM"}, ndjson, Gzip, false, false, 1},
	{"923", "Kestrel Point", []string{"KKZQ"}, array, Zstd, false, false, 2},
	{"924", "Redwater", []string{"KRJX-FM"}, ndjson, Gzip, true, false, 3},
	{"925", "Silas Creek", []string{"WSQX"}, ndjson, Zstd, false, false, 0},
	{"926", "Upper Thane", []string{"WUZJ-FM"}, csv, Gzip, true, false, 1},
	{"927", "Juniper Gap", []string{"KJGZ-TV"}, ndjson, Gzip, false, false, 2},
	{"928", "Holloway", []string{"WHQZ-FM"}, ndjson, Gzip, false, false, 3},
	{"929", "Brant Island", []string{"WBJQ-LP"}, ndjson, Gzip, false, false, 0},
	{"930", "Cold Spur", []string{"KCZJ"}, tsv, Zstd, false, false, 1},
	{"931", "East Larkin", []string{"WLQX-FM"}, ndjson, Gzip, false, false, 2},
	{"932", "Tamarind", []string{"KTJZ-TV"}, ndjson, Gzip, false, false, 3},
	{"933", "Ostler", []string{"WOZX"}, ndjson, Zstd, true, false, 0},
	{"934", "Nine Mile", []string{"KNQJ-FM"}, csv, Gzip, false, false, 1},
	{"935", "Wexcombe", []string{"WWZX-TV"}, ndjson, Gzip, false, false, 2},
	{"936", "Yarrow", []string{"KYQZ-FM"}, ndjson, Gzip, false, false, 3},
}

// spot is something that is advertised.
type spot struct{ advertiser, title, prefix string }

// spots carry what real titles carry: accents, quotes, ampersands, angle
// brackets, apostrophes and commas.
var spots = []spot{
	{"Café Élan", "Café Élan – Morning Blend", "CAEL"},
	{"Brannigan & Sons Tire", "Brannigan & Sons \"4 for 3\"", "BRNT"},
	{"O'Dell's Furniture", "O'Dell's Midsummer Sale", "ODEL"},
	{"Zweigart Hörgeräte", "Zweigart: Hear Again", "ZWHG"},
	{"Peña Motors, Inc.", "Peña Motors, Inc. <July Event>", "PENA"},
	{"First Tidewater Bank", "First Tidewater Home Equity", "FTWB"},
	{"Lumen Dental", "Lumen Dental Whitening 30", "LMND"},
	{"Quarry Street Grill", "Quarry Street Grill Lunch", "QRYS"},
	{"Harbor Light Insurance", "Harbor Light – Storm Season", "HLIN"},
	{"Piccolo's Pizza", "Piccolo's 2-for-1 Tuesday", "PICC"},
	{"Northfork Feed & Seed", "Northfork Feed & Seed Co-op", "NFFS"},
	{"Ravensworth College", "Ravensworth: Enroll by Aug 1", "RVNC"},
	{"Station Promo", "Tonight at 11", "PRMO"},
	{"Gable Roofing", "Gable Roofing \\ Free Estimate", "GABL"},
	{"Sørensen Marine", "Sørensen Marine Clearance", "SORM"},
	{"County Fair Board", "County Fair 2026 – Rodeo Night", "CFAI"},
	{"Mapleton Credit Union", "Mapleton CU Auto Loans 3.9%", "MPCU"},
	{"Dr. Ruiz Orthopedics", "Dr. Ruiz – Back in the Game", "RUIZ"},
	{"Blue Heron Casino", "Blue Heron: Loosest Slots, Period.", "BLHC"},
	{"Civic Theater", "Civic Theater presents \"Our Town\"", "CVTH"},
}
