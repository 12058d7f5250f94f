package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
)

//go:embed templates
var templateFiles embed.FS

// pages are the templates of the pages, each within the layout, by name.
type pages map[string]*template.Template

func parsePages() pages {
	all := pages{}
	layout := template.Must(template.New("layout").Funcs(functions).ParseFS(templateFiles, "templates/layout.html"))
	for _, name := range []string{"overview", "jobs", "job", "deployments", "evaluations", "allocation", "logs", "files", "plugins", "devices", "node", "terminal", "refused"} {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return all
}

// functions are what templates call. None makes HTML: all that they return is escaped.
var functions = template.FuncMap{
	"jobPath": jobPath, "allocationPath": allocationPath, "filesPath": filesPath, "logsPath": logsPath, "terminalPath": terminalPath,
	"clock": clock, "stamp": stamp, "nanos": nanos, "bytes": byteCount, "short": short, "mood": mood, "percent": percent,
	"deref": func(n *int) int {
		if n == nil {
			return 0
		}
		return *n
	},
	"is":   func(b *bool) bool { return b != nil && *b },
	"busy": func(idle float64) int { return int(100 - idle) },
	"text": func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	},
	"join": strings.Join,
	"pretty": func(path string) string {
		if strings.Contains(path, "?") {
			return path + "&pretty"
		}
		return path + "?pretty"
	},
}

func number(n int) string { return strconv.Itoa(n) }

// The paths of pages. Names may have any characters.
func jobPath(namespace, id string) string {
	return Prefix + "jobs/" + url.PathEscape(id) + "@" + url.PathEscape(namespace)
}
func allocationPath(id string) string { return Prefix + "allocations/" + url.PathEscape(id) }
func logsPath(id, task, kind string) string {
	return allocationPath(id) + "/logs/" + url.PathEscape(task) + "?" + values("type", kind).Encode()
}

func terminalPath(id, task string) string {
	return allocationPath(id) + "/exec/" + url.PathEscape(task)
}

func filesPath(id, path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return allocationPath(id) + "/fs/" + strings.Join(parts, "/")
}

func nanos(n int64) time.Time { return time.Unix(0, n).UTC() }

// clock is a time for people, and stamp the same for programs.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// short is the beginning of an ID, as Nomad's tools show it.
func short(id string) string { return id[:min(8, len(id))] }

// byteCount is a number of bytes for people: an int64 or a uint64.
func byteCount(n any) string {
	var value float64
	switch n := n.(type) {
	case int64:
		value = float64(n)
	case uint64:
		value = float64(n)
	}
	if value < 1024 {
		return fmt.Sprintf("%.0f B", value)
	}
	units := []string{"KiB", "MiB", "GiB", "TiB"}
	for value /= 1024; len(units) > 1 && value >= 1024; value /= 1024 {
		units = units[1:]
	}
	return fmt.Sprintf("%.1f %s", value, units[0])
}

// mood is how a status is to be taken: well, unwell, waiting, or nothing of these.
func mood(status string) string {
	switch status {
	case "running", "complete", "successful", "healthy", "ready", "success", "passing":
		return "well"
	case "failed", "lost", "unhealthy", "rejected", "down", "failure", "critical", "cancelled", "unknown", "quarantined":
		return "unwell"
	case "pending", "blocked", "loading", "paused", "initializing", "disconnected", "restarting":
		return "waiting"
	}
	return "plain"
}

// started stands for the time at which the files of this package were made.
var started = time.Now()

// digest names content.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}
