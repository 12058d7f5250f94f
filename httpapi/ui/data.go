package ui

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// data is a page as JSON: what it was made from.
type data struct {
	// Answers are those of the API, by what it was asked for: its JSON as it is, anything else as
	// a text.
	Answers map[string]json.RawMessage
	// Figures are what was seen before of what the page shows, by its name.
	Figures map[string][]dataFigure `json:",omitempty"`
}

// dataFigure is a figure as JSON. A value that is not known is null.
type dataFigure struct {
	Time   time.Time
	Values [2]*float64
}

// wantsData reports whether a request is of a program.
func wantsData(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// keep keeps an answer for who wants the page as JSON.
func (a *asker) keep(target string, body []byte) {
	switch {
	case a.data == nil:
	case json.Valid(body):
		a.data.Answers[target] = json.RawMessage(body)
	case utf8.Valid(body):
		text, _ := json.Marshal(string(body)) // a text has no errors
		a.data.Answers[target] = text
	default:
		a.data.Answers[target] = json.RawMessage("null")
	}
}

// add adds a figure of a thing that the page shows, and returns those that there are of it.
func (s *site) add(a *asker, thing string, x, y float64) []figure {
	all := s.seen.add(thing, figure{time.Now().UnixNano(), x, y})
	if a.data != nil {
		for _, f := range all {
			a.data.Figures[thing] = append(a.data.Figures[thing], dataFigure{nanos(f.at), [2]*float64{known(f.a), known(f.b)}})
		}
	}
	return all
}

// known is a number, or nil for what is none.
func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// sendData sends a page as JSON, and a refusal as the API does: a status, and one line of text.
func (a *asker) sendData(w http.ResponseWriter, v *view) {
	w.Header().Set("Vary", "Accept")
	if body, is := v.Body.(*refusedBody); is {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(v.status)
		_, _ = w.Write([]byte(body.Text)) // errors: who asked is gone
		return
	}
	shown := data{Answers: map[string]json.RawMessage{}, Figures: a.data.Figures}
	for _, target := range v.JSON {
		if answer := a.data.Answers[target]; answer != nil {
			shown.Answers[target] = answer
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(shown) // errors: who asked is gone
}
