// Package figures sums up what a benchmark measured. tests/bench/src/sample.rs reads it.
package figures

import (
	"slices"
	"syscall"
	"time"
)

// Sample is what one run showed, in microseconds.
type Sample struct {
	Operations int     `json:"operations"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	CPU        float64 `json:"cpu_us_per_op"`
}

// Summary makes a sample of operations that took so long, and so much CPU all together.
func Summary(took []time.Duration, cpu time.Duration) Sample {
	slices.Sort(took)
	n := len(took)
	return Sample{
		Operations: n,
		P50:        microseconds(took[n*50/100]),
		P99:        microseconds(took[n*99/100]),
		CPU:        microseconds(cpu) / float64(n),
	}
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Used is the CPU time of this process so far, user and system.
func Used() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, err
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}
