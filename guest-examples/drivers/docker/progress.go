package main

import (
	"strconv"
	"time"

	"github.com/wasmnode/wasmnode/sdk/go/config"
)

// How long a pull is quiet, and how often it says how far it is after that.
const (
	quietPull     = 5 * time.Second
	progressEvery = 30 * time.Second
)

// progress is how far a pull is, by what the engine says of its layers.
type progress struct {
	layers map[string]*layer
	next   time.Time // when something is said of it
}

// layer is a layer of an image on its way.
type layer struct {
	loading, here  bool
	current, total int64 // bytes
}

func newProgress(now time.Time) *progress {
	return &progress{layers: map[string]*layer{}, next: now.Add(quietPull)}
}

// take takes a line of the engine's. It returns what to say, "" for nothing yet.
func (p *progress) take(now time.Time, line config.Value) string {
	id, status := line.Get("id").Text(), line.Get("status").Text()
	l := p.layers[id]
	switch status {
	case "Pulling fs layer", "Waiting":
		if l == nil {
			p.layers[id] = &layer{}
		}
	case "Downloading", "Extracting":
		if l == nil {
			l = &layer{}
			p.layers[id] = l
		}
		l.loading = true
		if status == "Downloading" {
			l.current, l.total = line.Get("progressDetail", "current").Int(), line.Get("progressDetail", "total").Int()
		}
	case "Pull complete", "Already exists", "Download complete":
		if l == nil {
			l = &layer{}
			p.layers[id] = l
		}
		l.here, l.current = status != "Download complete", l.total
	}
	if now.Before(p.next) || len(p.layers) == 0 {
		return ""
	}
	p.next = now.Add(progressEvery)
	return p.String()
}

func (p *progress) String() string {
	var here, loading, waiting int
	var current, total int64
	for _, l := range p.layers {
		switch {
		case l.here:
			here++
		case l.loading:
			loading++
		default:
			waiting++
		}
		current, total = current+l.current, total+l.total
	}
	return "Docker image pull progress: Pulled " + strconv.Itoa(here) + "/" + strconv.Itoa(len(p.layers)) +
		" (" + mebibytes(current) + "/" + mebibytes(total) + ") layers: " + strconv.Itoa(waiting) + " waiting/" + strconv.Itoa(loading) + " pulling"
}

func mebibytes(n int64) string {
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + "MiB"
}
