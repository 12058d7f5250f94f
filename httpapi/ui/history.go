package ui

import (
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"sync"
	"time"
)

const (
	// points is how many figures are kept of a thing: at one each three seconds, three minutes.
	points = 60
	// apart is the least time between two of them, however many look.
	apart = 2 * time.Second
	// thingsKept is how many tasks, plugins and devices figures are kept of, and so 364 KiB at
	// most; those that nobody looked at for longest go.
	thingsKept = 256
	// gap is the time after which what was seen before says nothing of now.
	gap = 5 * time.Minute
)

// figure is what a thing was at a time: two numbers, each in its own unit. What is not known is
// not a number.
type figure struct {
	at   int64 // ns since 1970
	a, b float64
}

// ring are the last figures of a thing.
type ring struct {
	all   [points]figure
	first int
	n     int
}

// add adds a figure, in place of the oldest where there is no room.
func (r *ring) add(f figure) {
	if r.n < points {
		r.all[(r.first+r.n)%points] = f
		r.n++
		return
	}
	r.all[r.first] = f
	r.first = (r.first + 1) % points
}

func (r *ring) last() figure { return r.all[(r.first+r.n-1)%points] }

// list are the figures, the oldest first.
func (r *ring) list() []figure {
	out := make([]figure, 0, r.n)
	for i := range r.n {
		out = append(out, r.all[(r.first+i)%points])
	}
	return out
}

// history keeps the last figures of what somebody looks at, in memory only: nothing is measured
// for it. It is safe for concurrent use.
type history struct {
	seed   maphash.Seed
	mu     sync.Mutex
	things map[uint64]*ring // by what their names hash to: names may be long
}

func newHistory() *history {
	return &history{seed: maphash.MakeSeed(), things: map[uint64]*ring{}}
}

// add adds a figure of a thing, and returns those that there are of it.
func (h *history) add(thing string, f figure) []figure {
	name := maphash.String(h.seed, thing)
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.things[name]
	if r == nil || f.at-r.last().at >= int64(gap) || f.at < r.last().at-int64(apart) { // long ago, or the clock was set back
		r = &ring{}
		h.things[name] = r
	}
	if r.n == 0 || f.at-r.last().at >= int64(apart) {
		r.add(f)
	}
	if len(h.things) > thingsKept {
		h.forgetOne()
	}
	return r.list()
}

// forgetOne forgets the thing that has not been looked at for longest.
func (h *history) forgetOne() {
	var oldest uint64
	last := int64(math.MaxInt64)
	for name, r := range h.things {
		if at := r.last().at; at < last {
			oldest, last = name, at
		}
	}
	delete(h.things, oldest)
}

// rates are what counts grew by from one figure to the next: the first number for each second, and
// the second for each one of the first. A count that fell began anew.
func rates(all []figure) (grown []figure) {
	for i := 1; i < len(all); i++ {
		before, now := all[i-1], all[i]
		f := figure{at: now.at, a: math.NaN(), b: math.NaN()}
		if more := now.a - before.a; more >= 0 {
			f.a = more / time.Duration(now.at-before.at).Seconds()
			if more > 0 && now.b >= before.b {
				f.b = (now.b - before.b) / more
			}
		}
		grown = append(grown, f)
	}
	return grown
}

// spark is a line of figures, as SVG has it, and what it says in words.
type spark struct{ Points, Words string }

// The size of the picture that a line is drawn in.
const (
	sparkWidth, sparkHeight = 120, 24
)

// sparkOf draws one of the numbers of figures; fewer than two that are known are none. The words
// name the highest.
func sparkOf(all []figure, unit string, value func(figure) float64) *spark {
	known := make([]figure, 0, len(all))
	most := 0.0
	for _, f := range all {
		if v := value(f); !math.IsNaN(v) && !math.IsInf(v, 0) {
			known = append(known, f)
			most = max(most, v)
		}
	}
	if len(known) < 2 {
		return nil
	}
	scale := most
	if scale <= 0 {
		scale = 1
	}
	begin := known[0].at
	span := known[len(known)-1].at - begin
	var b strings.Builder
	for _, f := range known {
		x := float64(sparkWidth) * float64(f.at-begin) / float64(span)
		y := float64(sparkHeight-2)*(1-max(0, value(f))/scale) + 1
		fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
	}
	return &spark{strings.TrimSpace(b.String()), fmt.Sprintf("at most %s in the last %s", amount(most, unit), time.Duration(span).Round(time.Second))}
}

// amount is a number with its unit: as many digits as people read.
func amount(v float64, unit string) string {
	text := fmt.Sprintf("%.0f", v)
	if v < 10 && v != math.Trunc(v) {
		text = fmt.Sprintf("%.2g", v)
	}
	return strings.TrimSpace(text + " " + unit)
}

func first(f figure) float64  { return f.a }
func second(f figure) float64 { return f.b }
