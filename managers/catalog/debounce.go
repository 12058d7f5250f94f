package catalog

import (
	"io/fs"
	"time"
)

const (
	// stableTime is how long a file that is written in place has to stay as it is
	// before its content is taken.
	stableTime = 100 * time.Millisecond
	// maxIncompleteTime is how long a file that ends in the middle of a module may stay as
	// it is before it is taken all the same, to be rejected with the reason. A copy
	// that goes on later is seen again.
	maxIncompleteTime = 1200 * time.Millisecond
)

// mark is what one look shows of a file. A file with an equal mark is taken to
// have the same content.
type mark struct {
	size    int64
	changed time.Time
	inode   uint64
	mode    fs.FileMode
	// signature is the time, the size and the inode of the file's signature; zero: none is there.
	signature struct {
		size    int64
		changed time.Time
		inode   uint64
	}
}

// debouncer decides when a file is worth loading: a copy in progress is not a plugin
// yet, while a file that was renamed into place is whole at once. It is stepped by
// looks at the directory and knows nothing of clocks or disks.
type debouncer struct {
	files map[string]*observation
	// whole reports whether a file ends where its module does.
	whole func(name string) bool
}

// observation is a file as it was last seen.
type observation struct {
	mark  mark
	since time.Time // when mark was first seen
	taken bool
}

// look compares the directory with the last look. It returns the files whose
// content is to be taken now, those that are gone, and when to look again at the
// latest; 0: when something changes.
func (s *debouncer) look(now time.Time, marks map[string]mark) (ready, gone []string, again time.Duration) {
	for name := range s.files {
		if _, there := marks[name]; !there {
			delete(s.files, name)
			gone = append(gone, name)
		}
	}
	for name, m := range marks {
		f := s.files[name]
		moved := f == nil || f.mark.inode != m.inode
		if moved || f.mark != m {
			f = &observation{mark: m, since: now}
			s.files[name] = f
		}
		if f.taken {
			continue
		}
		if wait := s.wait(name, f, moved, now); wait > 0 {
			if again == 0 || wait < again {
				again = wait
			}
			continue
		}
		f.taken = true
		ready = append(ready, name)
	}
	return ready, gone, again
}

// wait returns how long a file has to stay as it is before it is taken.
func (s *debouncer) wait(name string, f *observation, moved bool, now time.Time) time.Duration {
	age := now.Sub(f.since)
	switch {
	case !f.mark.mode.IsRegular():
		return 0 // nothing will change; the loader reports what is wrong
	case age >= maxIncompleteTime:
		return 0
	case s.whole(name):
		if moved {
			return 0
		}
		return max(0, stableTime-age)
	}
	return min(stableTime, maxIncompleteTime-age)
}
