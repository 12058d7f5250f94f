package ui

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// points is how many figures are kept of a task: at one each three seconds, three minutes.
	points = 60
	// apart is the least time between two of them, however many look.
	apart = 2 * time.Second
	// tasksKept is how many tasks figures are kept of; those that nobody looked at for longest go.
	tasksKept = 256
)

// figure is what a task used at a time.
type figure struct {
	at            time.Time
	ticks, memory int // MHz, MiB
}

// history keeps the last figures of the tasks that somebody looks at, in memory only: nothing is
// measured for it. It is safe for concurrent use.
type history struct {
	mu    sync.Mutex
	tasks map[string][]figure // the oldest first
}

// add adds a figure of a task, and returns those that there are of it.
func (h *history) add(task string, f figure) []figure {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.tasks[task]
	if n := len(all); n == 0 || f.at.Sub(all[n-1].at) >= apart {
		all = append(all, f)
		all = slices.Clone(all[max(0, len(all)-points):])
	}
	h.tasks[task] = all
	if len(h.tasks) > tasksKept {
		h.forgetOne()
	}
	return all
}

// forgetOne forgets the task that has not been looked at for longest.
func (h *history) forgetOne() {
	oldest, last := "", time.Time{}
	for task, all := range h.tasks {
		if at := all[len(all)-1].at; oldest == "" || at.Before(last) {
			oldest, last = task, at
		}
	}
	delete(h.tasks, oldest)
}

// spark is a line of figures, as SVG has it, and what it says in words.
type spark struct{ Points, Words string }

// The size of the picture that a line is drawn in.
const (
	sparkWidth, sparkHeight = 120, 24
)

// sparkOf draws figures; fewer than two are none.
func sparkOf(all []figure, unit string, value func(figure) int) *spark {
	if len(all) < 2 {
		return nil
	}
	most := 1
	for _, f := range all {
		most = max(most, value(f))
	}
	begin := all[0].at
	span := all[len(all)-1].at.Sub(begin)
	var b strings.Builder
	for _, f := range all {
		x := float64(sparkWidth) * float64(f.at.Sub(begin)) / float64(span)
		y := float64(sparkHeight-2)*(1-float64(value(f))/float64(most)) + 1
		fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
	}
	return &spark{strings.TrimSpace(b.String()), fmt.Sprintf("at most %d %s in the last %s", most, unit, span.Round(time.Second))}
}
