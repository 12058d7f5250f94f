package standalone

import (
	"fmt"
	"strings"
)

// The bounds of what is said of one job: a fault names what it is about, so that without them
// a job of a few megabytes could have gigabytes said of it.
const (
	maxRemarks     = 100
	maxRemark      = 1 << 10 // bytes
	maxRemarkPlace = 256     // bytes of one name in front of it
)

// remarks are faults or warnings: the first ones, and how many more there are.
type remarks struct {
	texts []string
	more  int
}

// say adds one, with the names of where it is in front.
func (r *remarks) say(at []string, format string, args ...any) {
	if len(r.texts) == maxRemarks {
		r.more++ // it is not even put together
		return
	}
	r.add(strings.Join(append(at[:len(at):len(at)], fmt.Sprintf(format, args...)), ": "))
}

func (r *remarks) add(text string) {
	if len(r.texts) == maxRemarks {
		r.more++
		return
	}
	r.texts = append(r.texts, short(text, maxRemark))
}

func (r *remarks) any() bool { return len(r.texts) > 0 }

func (r *remarks) list() []string {
	if r.more == 0 {
		return r.texts
	}
	return append(r.texts, fmt.Sprintf("and %d more", r.more))
}

// short cuts a text to at most limit bytes, between characters, and says so.
func short(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
