package template_test

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	texttemplate "text/template"

	"github.com/Masterminds/sprig/v3"
	"github.com/stretchr/testify/require"
)

// sprigCalls are of each function of sprig's, without the prefix of their names. They have to do
// what the library itself does.
var sprigCalls = map[string][]string{
	"hello": {`hello`},
	"ago":   {`ago (toDate "2006-01-02" "2020-01-01") | hasSuffix "s"`}, "duration": {`duration "95"`, `duration 3600`}, "durationRound": {`durationRound "2h10m5s"`},
	"toDate": {`toDate "2006-01-02" "2017-12-31"`, `toDate "x" "y"`}, "mustToDate": {`mustToDate "2006-01-02" "2017-12-31"`, `mustToDate "2006" "y"`},
	"unixEpoch": {`unixEpoch (toDate "2006" "2017")`}, "mustDateModify": {`mustDateModify "-1h" (toDate "2006" "2017")`, `mustDateModify "x" (toDate "2006" "2017")`},
	"must_date_modify": {`must_date_modify "1h" (toDate "2006" "2017")`},
	"abbrev":           {`abbrev 5 "hello world"`, `abbrev 1 "hello"`, `abbrev -1 "hello"`}, "abbrevboth": {`abbrevboth 5 10 "1234 5678 9123"`}, "trunc": {`trunc 3 "hello"`, `trunc -3 "hello"`, `trunc 0 ""`},
	"trim": {`trim "  a "`}, "upper": {`upper "aß"`}, "lower": {`lower "AÉ"`}, "title": {`title "hello world-wide"`}, "untitle": {`untitle "Hello World"`},
	"substr": {`substr 0 3 "hello"`, `substr -1 3 "hello"`, `substr 1 -1 "hello"`, `substr 4 9 "hello"`}, "repeat": {`repeat 3 "ab"`, `repeat 0 "a"`, `repeat -1 "a"`},
	"trimall": {`trimall "$" "$5$"`}, "trimAll": {`trimAll "$" "$5$"`}, "trimSuffix": {`trimSuffix "-" "a-"`}, "trimPrefix": {`trimPrefix "-" "-a"`},
	"nospace": {`nospace " a b\tc"`}, "initials": {`initials "First Try"`}, "swapcase": {`swapcase "aB c"`}, "shuffle": {`shuffle "aaa"`},
	"snakecase": {`snakecase "FirstName"`}, "camelcase": {`camelcase "http_server"`}, "kebabcase": {`kebabcase "FirstName"`},
	"wrap": {`wrap 5 "aaa bbb ccccccccc"`, `wrap 0 "ab c"`}, "wrapWith": {`wrapWith 3 "\t" "Hello World"`, `wrapWith -1 "" "ab"`},
	"contains": {`contains "a" "cat"`}, "hasPrefix": {`hasPrefix "c" "cat"`}, "hasSuffix": {`hasSuffix "c" "cat"`},
	"quote": {`quote "a\"b" 1 nil`, `quote (list 1 "a")`}, "squote": {`squote "a'b" 1`}, "cat": {`cat "a" nil 1 (list "b")`},
	"indent": {`indent 4 "a\nb"`, `indent -1 "a"`}, "nindent": {`nindent 2 "a\n\nb"`}, "replace": {`replace " " "--" "a b c"`, `replace "" "-" "ab"`},
	"plural": {`plural "one" "many" 1`, `plural "one" "many" 2`}, "sha1sum": {`sha1sum "a"`}, "sha256sum": {`sha256sum "a"`}, "sha512sum": {`sha512sum "a"`}, "adler32sum": {`adler32sum "a"`},
	"toString": {`toString 1.5`, `toString (list 1 nil)`}, "atoi": {`atoi "42"`, `atoi "x"`}, "int64": {`int64 "42"`, `int64 2.9`, `int64 "x"`}, "int": {`int "7"`}, "float64": {`float64 "1.5"`},
	"seq": {`seq 5`, `seq -3`, `seq 0 2 10`, `seq 2 -2`, `seq 0 -2 -5`, `seq 5 2 1`, `seq`, `seq 1 2 3 4`, `seq 1 0 3`}, "toDecimal": {`toDecimal 777`, `toDecimal "x"`},
	"split": {`split "$" "foo$bar"`, `(split "," "a,b")._1`}, "splitList": {`splitList "," "a,,b"`, `splitList "" "ab"`}, "splitn": {`splitn "$" 2 "a$b$c"`, `splitn "$" 0 "a"`}, "toStrings": {`toStrings (list 1 "a" nil)`, `toStrings 7`},
	"until": {`until 5`, `until -3`, `until 0`}, "untilStep": {`untilStep 3 9 2`, `untilStep 3 -9 -4`, `untilStep 1 5 0`, `untilStep 5 1 1`},
	"add1": {`add1 4`}, "add": {`add 1 "2" 3.9`}, "sub": {`sub 5 2`}, "div": {`div 7 2`, `div 1 0`}, "mod": {`mod 7 4`, `mod 7 0`}, "mul": {`mul 2 3 4`}, "randInt": {`randInt 4 5`, `randInt 5 4`},
	"add1f": {`add1f 1.5`}, "addf": {`addf 0.1 0.2 "3"`}, "subf": {`subf 1.5 0.1`}, "divf": {`divf 10 4 2`, `divf 1 0`}, "mulf": {`mulf 1.1 3`},
	"biggest": {`biggest 1 3 2`}, "max": {`max 1 3 2`}, "min": {`min 4 3 5`}, "maxf": {`maxf 1 2.5`}, "minf": {`minf 1.5 2`}, "ceil": {`ceil 1.2`}, "floor": {`floor 1.8`}, "round": {`round 123.555555 3`, `round 123.5 0 0.6`, `round 1 1000000000`},
	"join": {`join "_" (list "a" 1 nil)`, `join "," "x"`}, "sortAlpha": {`sortAlpha (list "b" "a" 3)`},
	"default": {`default "a" ""`, `default "a" "b"`, `default 1 nil`, `default 1 (list)`}, "empty": {`empty 0`, `empty (dict "a" 1)`}, "coalesce": {`coalesce 0 "" "x"`, `coalesce`}, "all": {`all 1 "a"`, `all 0`}, "any": {`any 0 1`},
	"compact": {`compact (list 1 "" nil "a")`, `compact "x"`}, "mustCompact": {`mustCompact (list 0 1)`, `mustCompact "x"`},
	"fromJson": {`fromJson "{\"a\":[1]}"`, `fromJson "{"`}, "mustFromJson": {`mustFromJson "[1,2]"`, `mustFromJson "{"`},
	"toJson": {`toJson (dict "a" "<b>")`}, "mustToJson": {`mustToJson (list 1)`}, "toPrettyJson": {`toPrettyJson (dict "a" (list 1 2))`}, "mustToPrettyJson": {`mustToPrettyJson (list 1)`},
	"toRawJson": {`toRawJson (dict "a" "<b>")`}, "mustToRawJson": {`mustToRawJson "&"`}, "ternary": {`ternary "a" "b" true`, `ternary "a" "b" false`},
	"deepCopy": {`deepCopy (dict "a" (list 1))`, `deepCopy nil`}, "mustDeepCopy": {`mustDeepCopy (list (dict "a" 1))`},
	"typeOf": {`typeOf 1`, `typeOf (list)`}, "typeIs": {`typeIs "int" 1`}, "typeIsLike": {`typeIsLike "int" 1`}, "kindOf": {`kindOf (dict)`}, "kindIs": {`kindIs "string" "a"`}, "deepEqual": {`deepEqual (list 1) (list 1)`, `deepEqual nil 1`},
	"base": {`base "a/b.c"`}, "dir": {`dir "a/b.c"`}, "clean": {`clean "a/../b"`}, "ext": {`ext "a.b"`}, "isAbs": {`isAbs "/a"`},
	"osBase": {`osBase "/a/b"`}, "osClean": {`osClean "a//b"`}, "osDir": {`osDir "/a/b"`}, "osExt": {`osExt "a.b"`}, "osIsAbs": {`osIsAbs "a"`},
	"b64enc": {`b64enc "a"`}, "b64dec": {`b64dec "YQ=="`, `b64dec "!"`}, "b32enc": {`b32enc "a"`}, "b32dec": {`b32dec "ME======"`},
	"tuple": {`tuple 1 "a"`}, "list": {`list 1 "a" nil`}, "dict": {`dict "a" 1 "b"`, `dict 1 2`}, "get": {`get (dict "a" 1) "a"`, `get (dict) "a"`}, "set": {`set (dict "a" 1) "b" (list 2)`, `set (dict "a" 1) "a" nil`},
	"unset": {`unset (dict "a" 1) "a"`}, "hasKey": {`hasKey (dict "a" 1) "a"`}, "pluck": {`pluck "a" (dict "a" 1) (dict "a" 2) (dict)`}, "keys": {`keys (dict "a" 1)`}, "pick": {`pick (dict "a" 1 "b" 2) "a"`}, "omit": {`omit (dict "a" 1 "b" 2) "a"`},
	"merge":          {`merge (dict "a" 1 "b" (dict "c" 1)) (dict "a" 2 "b" (dict "c" 2 "d" 3)) (dict "e" 4)`, `merge (dict)`},
	"mergeOverwrite": {`mergeOverwrite (dict "a" 1 "b" (dict "c" 1)) (dict "a" 2 "b" (dict "d" 3))`}, "mustMerge": {`mustMerge (dict "a" 1) (dict "b" 2)`},
	"mustMergeOverwrite": {`mustMergeOverwrite (dict "a" 1) (dict "a" 2)`}, "values": {`values (dict "a" 1)`},
	"append": {`append (list 1) 2`, `append "x" 2`}, "push": {`push (list 1) 2`}, "mustAppend": {`mustAppend (list) 2`}, "mustPush": {`mustPush "x" 1`}, "prepend": {`prepend (list 1) 2`}, "mustPrepend": {`mustPrepend (list 1) 2`},
	"first": {`first (list 1 2)`, `first (list)`}, "mustFirst": {`mustFirst (list 1)`}, "rest": {`rest (list 1 2 3)`}, "mustRest": {`mustRest (list 1 2)`}, "last": {`last (list 1 2)`}, "mustLast": {`mustLast (list 1 2)`}, "initial": {`initial (list 1 2)`}, "mustInitial": {`mustInitial (list 1 2)`},
	"reverse": {`reverse (list 1 2)`}, "mustReverse": {`mustReverse (list 1 2)`}, "uniq": {`uniq (list 1 1 "a" 2 "a")`}, "mustUniq": {`mustUniq (list 1 1)`}, "without": {`without (list 1 2 3) 2 3`}, "mustWithout": {`mustWithout (list 1 2) 1`},
	"has": {`has 1 (list 1 2)`, `has 1 nil`}, "mustHas": {`mustHas 3 (list 1)`, `mustHas 1 "x"`}, "slice": {`slice (list 1 2 3) 1 2`, `slice (list 1 2 3) 2`, `slice (list 1) 5`}, "mustSlice": {`mustSlice (list 1 2 3) 1`},
	"concat": {`concat (list 1) (list 2 3)`, `concat (list 1) "x"`}, "dig": {`dig "a" "b" "none" (dict "a" (dict "b" 1))`, `dig "x" "none" (dict)`, `dig 1`}, "chunk": {`chunk 2 (list 1 2 3)`, `chunk 0 (list 1)`, `chunk 9 (list)`, `chunk -1 (list 1 2)`}, "mustChunk": {`mustChunk 1 (list 1 2)`, `mustChunk 1 "x"`},
	"bcrypt": {`bcrypt "a" | hasPrefix "$2a$10$"`}, "htpasswd": {`htpasswd "u" "p" | hasPrefix "u:$2a$10$"`, `htpasswd "u:" "p"`}, "derivePassword": {`derivePassword 1 "long" "password" "user" "example.com"`, `derivePassword 1 "x" "p" "u" "s"`},
	"genPrivateKey": {`genPrivateKey "ecdsa" | hasPrefix "-----BEGIN EC PRIVATE KEY-----\n"`, `genPrivateKey "ed25519" | hasPrefix "-----BEGIN PRIVATE KEY-----\n"`, `genPrivateKey "x"`},
	"genCA":         {`(genCA "ca" 10).Cert | hasPrefix "-----BEGIN CERTIFICATE-----\n"`}, "genCAWithKey": {`(genCAWithKey "ca" 10 (genPrivateKey "ecdsa")).Key | hasPrefix "-----BEGIN EC PRIVATE KEY"`, `genCAWithKey "ca" 10 "x"`},
	"genSelfSignedCert":        {`(genSelfSignedCert "a" (list "10.0.0.1") (list "b") 1).Key | hasPrefix "-----BEGIN RSA PRIVATE KEY"`, `genSelfSignedCert "a" (list "x") nil 1`},
	"genSelfSignedCertWithKey": {`(genSelfSignedCertWithKey "a" nil nil 1 (genPrivateKey "ed25519")).Cert | hasPrefix "-----BEGIN CERT"`},
	"genSignedCert":            {`(genSignedCert "a" nil nil 1 (genCAWithKey "ca" 1 (genPrivateKey "ecdsa"))).Cert | hasPrefix "-----BEGIN CERT"`}, "genSignedCertWithKey": {`(genSignedCertWithKey "a" nil nil 1 (genCAWithKey "ca" 1 (genPrivateKey "ecdsa")) (genPrivateKey "ecdsa")).Cert | hasPrefix "-----BEGIN CERT"`},
	"buildCustomCert": {`buildCustomCert "eA==" "eA=="`}, "encryptAES": {`encryptAES "k" ""`, `encryptAES "k" "text" | decryptAES "k"`}, "decryptAES": {`decryptAES "k" "!"`, `decryptAES "30tEfhuJSVRhpG97XCuWgz2okj7L8vQ1s6V9zVUPeDQ=" "x"`},
	"semver": {`(semver "1.2.3-alpha").Minor`, `semver "1.2.3"`, `semver "x"`}, "semverCompare": {`semverCompare "^1.2.0" "1.4.0"`, `semverCompare "x" "1"`}, "fail": {`fail "why"`},
	"regexMatch": {`regexMatch "^a+$" "aa"`, `regexMatch "(" "a"`}, "mustRegexMatch": {`mustRegexMatch "(" "a"`, `mustRegexMatch "a" "a"`}, "regexFindAll": {`regexFindAll "[2,4]" "123456789" -1`, `regexFindAll "a" "aaa" 2`}, "mustRegexFindAll": {`mustRegexFindAll "a" "b" -1`},
	"regexFind": {`regexFind "[a-z][1-9]" "abcd1234"`}, "mustRegexFind": {`mustRegexFind "[" "a"`}, "regexReplaceAll": {`regexReplaceAll "a(x*)b" "-ab-axxb-" "${1}W"`}, "mustRegexReplaceAll": {`mustRegexReplaceAll "a" "aa" "b"`},
	"regexReplaceAllLiteral": {`regexReplaceAllLiteral "a(x*)b" "-ab-" "${1}"`}, "mustRegexReplaceAllLiteral": {`mustRegexReplaceAllLiteral "a" "a" "$1"`}, "regexSplit": {`regexSplit "z+" "pizza" -1`}, "mustRegexSplit": {`mustRegexSplit "," "a,b" 1`}, "regexQuoteMeta": {`regexQuoteMeta "1.2"`},
	"urlParse": {`urlParse "http://user:pw@host:80/p?q=1#f"`, `urlParse ":"`}, "urlJoin": {`urlJoin (dict "scheme" "http" "host" "h" "path" "/p" "query" "a=b")`, `urlJoin (dict "host" 1)`},
}

var sprigNames = regexp.MustCompile(`\b[a-zA-Z_]\w*`)

// prefixed is an expression with the names that sprig's functions have here.
func prefixed(expression string, functions texttemplate.FuncMap) string {
	var out strings.Builder
	for i, part := range strings.Split(expression, `"`) { // texts are between quotes
		if i > 0 {
			out.WriteByte('"')
		}
		if i%2 == 0 {
			part = sprigNames.ReplaceAllStringFunc(part, func(name string) string {
				if functions[name] != nil {
					return "sprig_" + name
				}
				return name
			})
		}
		out.WriteString(part)
	}
	return out.String()
}

func TestSprigsFunctionsAreTheLibrarys(t *testing.T) {
	in := input(t, nil)
	real := sprig.HermeticTxtFuncMap()
	require.ElementsMatch(t, slices.Collect(maps.Keys(real)), slices.Collect(maps.Keys(sprigCalls)), "each has its calls")
	named := texttemplate.FuncMap{}
	for name, fn := range real {
		named["sprig_"+name] = fn
	}
	for name, calls := range sprigCalls {
		for _, call := range calls {
			data := strings.ReplaceAll(prefixed(call, real), `\"`, `\u0022`)
			data = "{{ " + data + " }}"
			require.Contains(t, data, "sprig_"+name)
			if strings.Contains(call, "| hasPrefix") { // it is another each time, and takes long
				out, err := renderAny(t, in, data)
				require.NoError(t, err, data)
				require.Equal(t, "true", out, data)
				continue
			}
			var there bytes.Buffer
			parsed, err := texttemplate.New("").Funcs(named).Parse(data)
			require.NoError(t, err, data)
			failure := parsed.Execute(&there, nil)
			out, err := renderAny(t, in, data)
			if failure != nil {
				require.Error(t, err, data)
				continue
			}
			require.NoError(t, err, data)
			require.Equal(t, there.String(), out, data)
		}
	}
	for _, name := range []string{"env", "expandenv", "getHostByName", "now", "date", "randAlpha", "uuidv4"} {
		_, err := renderAny(t, in, "{{ sprig_"+name+" }}")
		require.ErrorContains(t, err, "not defined", "as with consul-template")
	}
}

// What a function may take is bounded: at the bound it works, and beyond it it is refused.
func TestSprigsFunctionsAreBounded(t *testing.T) {
	in := input(t, nil)
	nested := func(n int) string {
		return strings.Repeat("[", n) + strings.Repeat("]", n)
	}
	for _, c := range []struct{ within, beyond, want string }{
		{`sprig_repeat 67108864 "a" | len`, `sprig_repeat 67108865 "a" | len`, "makes more than 67108864 bytes"},
		{`sprig_until 1048574 | len`, `sprig_until 1048575 | len`, "makes more than"},
		{`sprig_until -1048574 | len`, `sprig_until -9223372036854775808 | len`, "from -1099511627776 to 1099511627776"},
		{`sprig_untilStep 0 1099511627776 1099511627775 | len`, `sprig_untilStep 0 1099511627777 1099511627776`, "from -1099511627776 to 1099511627776"},
		{`sprig_untilStep 0 9 3 | len`, `sprig_untilStep 0 9223372036854775807 9223372036854775806`, "from -1099511627776"},
		{`sprig_seq 1048575 | len`, `sprig_seq 1048576 | len`, "makes more than"},
		{`sprig_seq 0 4 4194296 | len`, `sprig_seq 0 4 9223372036854775807`, "from -1099511627776"},
		{`sprig_indent 67108863 "a" | len`, `sprig_indent 67108864 "a" | len`, "makes more than"},
		{`sprig_nindent 1000 "a\nb" | len`, `sprig_nindent 33554432 "a\nb" | len`, "makes more than"},
		{`sprig_replace "a" "bb" (sprig_repeat 10 "a") | len`, `sprig_replace "" (sprig_repeat 10000 "b") (sprig_repeat 10000 "a") | len`, "makes more than"},
		{`sprig_wrapWith 1 "x" "abc"`, `sprig_wrapWith 1 (sprig_repeat 10000 "b") (sprig_repeat 10000 "a") | len`, "makes more than"},
		{`sprig_join "," (sprig_until 9)`, `sprig_join (sprig_repeat 10000 "b") (sprig_until 10000) | len`, "makes more than"},
		{`sprig_split "" (sprig_repeat 500000 "a") | len`, `sprig_split "" (sprig_repeat 600000 "a") | len`, "makes more than"},
		{`sprig_splitn "" 500000 (sprig_repeat 600000 "a") | len`, `sprig_splitn "" 600000 (sprig_repeat 600000 "a") | len`, "makes more than"},
		{`sprig_splitn "" 0 (sprig_repeat 600000 "a") | len`, `sprig_splitn "" -1 (sprig_repeat 600000 "a") | len`, "makes more than"},
		{`sprig_splitList "" (sprig_repeat 3000000 "a") | len`, `sprig_splitList "" (sprig_repeat 9000000 "a") | len`, "makes more than"},
		{`sprig_semverCompare (sprig_repeat 1363 ">1 ") "1.2.3"`, `sprig_semverCompare (sprig_repeat 1365 ">1 ") "1.2.3"`, "more than 4096"},
		{`sprig_trimAll "é" (sprig_repeat 1000 "é")`, `sprig_trimAll (print (sprig_repeat 50000 "a") "é") (sprig_repeat 50000 "é")`, "too long to trim"},
		{`trim "é" (sprig_repeat 1000 "é")`, `trim (print (sprig_repeat 50000 "a") "é") (sprig_repeat 50000 "é")`, "too long to trim"},
		{`sprig_uniq (sprig_until 4094) | len`, `sprig_uniq (sprig_until 4096) | len`, "too long to compare them all"},
		{`sprig_uniq (split "," (sprig_repeat 1000 (printf "%s," (sprig_repeat 1000 "a")))) | len`, `sprig_uniq (split "," (sprig_repeat 1000 (printf "%s," (sprig_repeat 2000 "a")))) | len`, "too long to compare their"},
		{`sprig_without (sprig_until 4094) 1 | len`, `sprig_without (sprig_until 4096) 1 | len`, "too long to compare them all"},
		{`sprig_addf ` + strings.Repeat("1 ", 100), `sprig_addf ` + strings.Repeat("1 ", 101), "it takes 100 numbers at most"},
		{`regexMatch "b" (sprig_repeat 8000000 "a")`, `regexMatch "(a?a?a?a?a?a?a?a?a?a?){4}b" (sprig_repeat 8000000 "a")`, "too long for this expression"},
		{`sprig_regexMatch "(a|b)*c" (sprig_repeat 1000 "a")`, `sprig_regexReplaceAll "(a*b)?" (sprig_repeat 100000 "a") "x"`, "too long for this expression"},
		{`sprig_regexReplaceAll "a" (sprig_repeat 100 "a") "b" | len`, `sprig_regexReplaceAll "a" (sprig_repeat 5000 "a") (sprig_repeat 20000 "b") | len`, "makes more than"},
		{`sprig_regexFindAll "a" (sprig_repeat 100 "a") -1 | len`, `sprig_regexSplit "a*?(b|c)" (sprig_repeat 100000 "a") -1 | len`, "too long for this expression"},
		{strings.Repeat(`sprig_htpasswd ":" "p" }}{{ `, 15) + `sprig_htpasswd ":" "p"`, strings.Repeat(`sprig_htpasswd ":" "p" }}{{ `, 16) + `sprig_htpasswd ":" "p"`, "more than 16 keys"},
		{`sprig_genCAWithKey "a" 1 (sprig_genPrivateKey "ecdsa") | len`, `sprig_genCAWithKey "a" 1 (sprig_repeat 16384 "a") | len`, "more than 16384"},
		{`sprig_genPrivateKey "ed25519"`, `sprig_genPrivateKey "dsa"`, "no DSA keys are made"},
		{`sprig_fromJson "` + nested(9999) + `" | sprig_toJson | len`, `sprig_list (sprig_list (sprig_list (parseJSON "` + nested(10000) + `"))) | len`, "nested more than 10000 deep"},
		{`sprig_fromJson "` + nested(1000) + `" | sprig_toPrettyJson | len`, `sprig_fromJson "` + nested(9999) + `" | sprig_toPrettyJson | len`, "makes more than"},
	} {
		if !strings.Contains(c.within, "genCAWithKey") { // of which len is none
			_, err := renderAny(t, in, "{{ "+c.within+" }}")
			require.NoError(t, err, "%.80s", c.within)
		}
		_, err := renderAny(t, in, "{{ "+c.beyond+" }}")
		require.ErrorContains(t, err, c.want, "%.80s", c.beyond)
	}
}

// A value that is in itself, or that is small and prints without end, ends a template and nothing else.
func TestHostileValuesEndATemplate(t *testing.T) {
	in := input(t, nil)
	const set = `{{ range $i := loop 40 }}{{ $k := print $i }}{{ $x := scratch.Get "x" }}` +
		`{{ scratch.MapSet $k "a" $x }}{{ scratch.MapSet $k "b" $x }}{{ scratch.Set "x" (scratch.Get $k) }}{{ end }}`
	for data, want := range map[string]string{
		`{{ $d := sprig_dict }}{{ sprig_set $d "a" $d }}`:                                            "a map cannot be put into itself",
		`{{ $d := sprig_dict }}{{ sprig_set $d "a" (sprig_list 1 (sprig_dict "b" $d)) }}`:            "a map cannot be put into itself",
		`{{ $d := sprig_dict }}{{ $e := sprig_dict "d" $d }}{{ $x := sprig_set $d "e" $e }}{{ $x }}`: "a map cannot be put into itself",
		`{{ $x := scratch.MapSet "m" "a" 1 }}{{ scratch.MapSet "m" "b" (scratch.Get "m") }}`:         "a map cannot be put into itself",
		`{{ $x := sprig_list "ha" }}{{ range loop 40 }}{{ $x = sprig_list $x $x }}{{ end }}`:         "a value has more than 1048576 parts",
		set:                               "a value has more than 1048576 parts",
		`{{ loop 400000 | toJSON }}`:      "makes more than",
		`{{ loop 400000 | toYAML }}`:      "makes more than",
		`{{ loop 400000 | toTOML }}`:      "makes more than",
		`{{ loop 400000 | print }}`:       "makes more than",
		`{{ loop 400000 | printf "%v" }}`: "makes more than",
		`{{ loop 1048576 }}`:              "it cannot be printed: a value has more than 1048576 parts",
		`{{ range 100 }}{{ $x := print (loop 80000) }}{{ end }}`: "makes more than",
		`{{ parseYAML "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g]\n" | len }}`: "excessive aliasing",
		`{{ printf "%#v" (loop 1000000) }}`:                                   "makes more than",
		`{{ printf "%900d" (loop 100000) }}`:                                  "makes more than",
		`{{ printf "%+v" (loop 250000) }}`:                                    "makes more than",
		`{{ containsAll (sprig_splitList "" (sprig_repeat 10000 "a")) "a" }}`: "wrong type",
	} {
		_, err := renderAny(t, in, data)
		require.ErrorContains(t, err, want, "%.120s", data)
	}
	merged, err := renderAny(t, in, `{{ $d := sprig_dict "a" 1 }}{{ $m := sprig_merge $d (sprig_dict "self" $d) }}{{ $m | toJSON }}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1,"self":{"a":1}}`, merged, "of what is merged a copy is")
	merged, err = renderAny(t, in, `{{ $d := parseJSON "{\"a\":{\"b\":1}}" }}{{ mergeMap $d (sprig_dict "a" (sprig_dict "d" $d)) | toJSON }}`)
	require.NoError(t, err)
	require.JSONEq(t, `{"a":{"b":1,"d":{"a":{"b":1}}}}`, merged)
}

// What %#v shows is counted as long as it is: a part's type is longer than the part.
func TestWhatIsPrintedIsCountedAsLongAsItIs(t *testing.T) {
	in := input(t, nil)
	for _, data := range []string{
		`{{ $x := loop 30000 }}{{ range loop %d }}{{ $y := printf "%%#v" $x }}{{ end }}`,
		`{{ $x := sprig_splitList "" (sprig_repeat 30000 "\x00") }}{{ range loop %d }}{{ $y := printf "%%q" $x }}{{ end }}`,
		`{{ $x := sprig_until 30000 }}{{ range loop %d }}{{ $y := printf "%%05d" $x }}{{ end }}`,
	} {
		_, err := renderAny(t, in, fmt.Sprintf(data, 1))
		require.NoError(t, err, data)
		_, err = renderAny(t, in, fmt.Sprintf(data, 20))
		require.ErrorContains(t, err, "makes more than", data)
	}
}
