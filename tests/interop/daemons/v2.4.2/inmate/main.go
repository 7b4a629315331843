// Command inmate is what runs in containers of tests, and keeps their pods: it tells which limits it has, and stays until it is told to go.
package main

import (
	"log"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	limits, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		log.Fatal(err)
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	if _, err := os.Stdout.Write(limits); err != nil {
		log.Fatal(err)
	}
	<-told
}
