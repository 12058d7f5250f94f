// Command mutate changes a package in one small place at a time and reports which changes
// its own tests do not notice.
//
//	mutate [-n COUNT] [-seed SEED] [-files REGEXP] [-run REGEXP] [-short=false] DIR
//
// DIR is a package's directory. Nothing in it is touched: sources with all mutants, of which
// one is turned on at a time, are laid over it with "go test -overlay". A mutant that does not
// compile is not counted. Only the tests that reach a mutant are run. One that they hang on
// is noticed: they get three times as long as without a change, and half a minute. The exit
// code is 0 whatever survives, since some changes change nothing. Start reading at [mutants].
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	count := flags.Int("n", 50, "how many mutants to try; 0: all")
	seed := flags.Uint64("seed", 1, "which of them")
	files := flags.String("files", "", "only files whose name matches")
	tests := flags.String("run", ".", "only tests whose name matches")
	short := flags.Bool("short", true, "run the tests with -short")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name the directory of one package")
	}
	dir, err := filepath.Abs(flags.Arg(0))
	if err != nil {
		return err
	}
	only, err := regexp.Compile(*files)
	if err != nil {
		return fmt.Errorf("-files: %w", err)
	}
	all, err := mutants(dir, only)
	if err != nil {
		return err
	}
	chosen := sample(all, *count, *seed)
	tester, err := newTester(ctx, dir, chosen, *tests, *short)
	if err != nil {
		return err
	}
	defer tester.close()
	fmt.Fprintf(out, "%s: %d of %d mutants, seed %d\n", flags.Arg(0), len(chosen), len(all), *seed)
	return try(ctx, tester, chosen, out)
}

// sample draws n of all, in the order of the sources; 0: all.
func sample(all []mutant, n int, seed uint64) []mutant {
	if n == 0 || n >= len(all) {
		return all
	}
	drawn := map[int]bool{}
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:n] {
		drawn[i] = true
	}
	var chosen []mutant
	for i, m := range all {
		if drawn[i] {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// tally counts what became of mutants.
type tally struct{ killed, survived int }

// try tries mutants one after another and prints those that survive, and the rate.
func try(ctx context.Context, t *tester, chosen []mutant, out io.Writer) error {
	var total tally
	byFile := map[string]*tally{}
	var order []string
	for i, m := range chosen {
		verdict, err := t.test(ctx, i+1)
		if err != nil {
			return err
		}
		if byFile[m.file] == nil {
			byFile[m.file] = &tally{}
			order = append(order, m.file)
		}
		switch verdict {
		case survived:
			total.survived++
			byFile[m.file].survived++
			how := fmt.Sprintf("%d tests", len(t.reached[i+1]))
			fmt.Fprintf(out, "SURVIVED %s:%d: %s (reached by %s)\n", filepath.Base(m.file), m.line, m.what, how)
		case killed:
			total.killed++
			byFile[m.file].killed++
		}
	}
	for _, file := range order {
		fmt.Fprintf(out, "%-30s %s\n", filepath.Base(file), *byFile[file])
	}
	fmt.Fprintf(out, "%-30s %s\n", "all", total)
	return nil
}

func (t tally) String() string {
	n := t.killed + t.survived
	if n == 0 {
		return "none compiled"
	}
	return strings.TrimSpace(fmt.Sprintf("%3d%% of %d noticed", 100*t.killed/n, n))
}
