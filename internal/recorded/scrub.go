package recorded

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The node and its secret, as they are in what was scrubbed. Other IDs are counted on from there.
var (
	NodeID   = fixedID(1)
	SecretID = fixedID(2)
)

func fixedID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// What is replaced, and what it is replaced with where that is always the same.
var (
	jwt      = regexp.MustCompile(`eyJ[\w-]{8,}\.[\w-]+\.[\w-]*`)
	uuid     = regexp.MustCompile(`\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b`)
	ipv4     = regexp.MustCompile(`\b(\d{1,3}\.){3}\d{1,3}\b`)
	mac      = regexp.MustCompile(`\b([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}\b`)
	place    = regexp.MustCompile(`/(tmp|root|home|work|build|var|run|mnt)/[^\s"':,;]*`)
	seconds  = regexp.MustCompile(`\b(1[6-9]\d{8}|[23]\d{9})\b`) // a time
	hardware = regexp.MustCompile(`/dev/([shvx]d|xvd|nvme|dm-|md|mapper/)\w*|"(Uptime|Available)":(\d{2,}|[2-9])`)
	opaque   = regexp.MustCompile(`[A-Za-z0-9+/_=-]{44,}`) // a key, a hash, a token
)

const (
	fixedIPv4  = "192.0.2.1"
	fixedIPv6  = "2001:db8::1"
	fixedMAC   = "00:00:5e:00:53:01"
	fixedPlace = "/data"
	scrubbed   = "scrubbed"
	// longAgo is more than any number but a time in nanoseconds.
	longAgo = 1e17
	// What is between them is taken for a time in seconds.
	firstSecond, lastSecond = 1.6e9, 4e9
)

var fixedTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// told are the attributes of a node whose values stay: they are the same on every machine.
var told = regexp.MustCompile(`^(driver\.(raw_)?exec|kernel\.name|cpu\.arch|nomad\.(version|service_discovery|bridge.*)|plugins\..*)$`)

// Scrub replaces what is of one machine or secret by what is always the same: IDs, tokens,
// addresses, names of the machine and of its directories, times, and what a node tells and measures of
// its hardware. hosts are the machine's names.
func Scrub(list []Exchange, hosts ...string) []Exchange {
	s := &scrubber{ids: map[string]string{}, tokens: map[string]string{}, hosts: hosts}
	for _, x := range list {
		if args, is := x.Args.(map[string]any); is && x.Method == "Node.Register" {
			if node, is := args["Node"].(map[string]any); is {
				id, _ := node["ID"].(string)
				secret, _ := node["SecretID"].(string)
				s.ids[id], s.ids[secret] = NodeID, SecretID
			}
		}
	}
	var out []Exchange
	for _, x := range list {
		x.Args, x.Reply, x.Error = s.value("", x.Args), s.value("", x.Reply), s.text(x.Error)
		if x.Frames != nil {
			x.Frames = s.value("", x.Frames).([]any)
		}
		out = append(out, x)
	}
	return out
}

type scrubber struct {
	ids, tokens map[string]string
	hosts       []string
}

// value scrubs what is at a key.
func (s *scrubber) value(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, in := range v {
			switch of, is := in.(string); {
			case key == "Attributes" && is && !told.MatchString(k), is && strings.HasPrefix(k, "connect."):
				out[k] = scrubbed
			case k == "HostStats":
				out[k] = figures(in)
			case key == "MigrateTokens" && is && of != "":
				out[s.text(k)] = scrubbed
			default:
				out[s.text(k)] = s.value(k, in)
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, in := range v {
			out[i] = s.value(key, in)
		}
		return out
	case string:
		if at, is := timeOf(v); is {
			if !at.IsZero() {
				at = fixedTime
			}
			raw, _ := at.MarshalBinary()
			return string(raw)
		}
		return s.text(v)
	case int64:
		return number(v)
	case uint64:
		return number(v)
	}
	return v
}

// number is a number, or the fixed time if it is one.
func number[N int64 | uint64](v N) any {
	switch {
	case v > longAgo:
		return fixedTime.UnixNano()
	case v >= firstSecond && v < lastSecond:
		return fixedTime.Unix()
	}
	return v
}

// figures are what a node measures of its machine, without how much and of how many things it is.
func figures(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, in := range v {
			out[k] = figures(in)
		}
		return out
	case []any:
		if len(v) > 0 {
			return []any{figures(v[0])}
		}
	case string:
		if v != "" {
			return scrubbed
		}
	case int64, uint64:
		return int64(1)
	case float64:
		return 1.0
	}
	return v
}

func (s *scrubber) text(v string) string {
	if !isText(v) {
		return v
	}
	if ip, err := netip.ParseAddr(v); err == nil && ip.Is6() {
		return fixedIPv6
	}
	if p, err := netip.ParsePrefix(v); err == nil && p.Addr().Is6() {
		return fixedIPv6 + "/128"
	}
	v = jwt.ReplaceAllStringFunc(v, func(is string) string {
		if s.tokens[is] == "" {
			s.tokens[is] = fmt.Sprintf("token-%d", len(s.tokens)+1)
		}
		return s.tokens[is]
	})
	v = uuid.ReplaceAllStringFunc(v, func(is string) string {
		if s.ids[is] == "" {
			s.ids[is] = fixedID(len(s.ids) + 1)
		}
		return s.ids[is]
	})
	for _, host := range s.hosts {
		if host != "" {
			v = strings.ReplaceAll(v, host, "host")
		}
	}
	v = place.ReplaceAllString(v, fixedPlace)
	v = mac.ReplaceAllString(v, fixedMAC)
	v = ipv4.ReplaceAllString(v, fixedIPv4)
	if rest := uuid.ReplaceAllString(v, ""); opaque.MatchString(rest) {
		return scrubbed
	}
	return v
}

// Leftovers are what a text has that Scrub would have replaced; none: nothing.
func Leftovers(text string) (list []string) {
	for _, found := range uuid.FindAllString(text, -1) {
		if !strings.HasPrefix(found, fixedID(0)[:24]+"0000") {
			list = append(list, found)
		}
	}
	for _, found := range ipv4.FindAllString(text, -1) {
		if found != fixedIPv4 {
			list = append(list, found)
		}
	}
	for _, found := range mac.FindAllString(text, -1) {
		if found != fixedMAC {
			list = append(list, found)
		}
	}
	for _, found := range seconds.FindAllString(text, -1) {
		if found != strconv.FormatInt(fixedTime.Unix(), 10) {
			list = append(list, found)
		}
	}
	list = append(list, hardware.FindAllString(text, -1)...)
	list = append(list, jwt.FindAllString(text, -1)...)
	list = append(list, place.FindAllString(text, -1)...)
	return append(list, opaque.FindAllString(uuid.ReplaceAllString(text, ""), -1)...)
}
