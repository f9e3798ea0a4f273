// Writes ten orders and reads them as the group `billing`, with franz-go: go run .
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const count = 10

func main() {
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	defer end()
	bootstrap := os.Getenv("BOOTSTRAP_SERVERS")
	if bootstrap == "" {
		bootstrap = "127.0.0.1:9092"
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ConsumerGroup("billing"),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.AllowAutoTopicCreation(),
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	for number := range count {
		key := fmt.Sprintf("customer-%d", number%3)
		value := fmt.Sprintf("order %d", number)
		order := &kgo.Record{Topic: "orders", Key: []byte(key), Value: []byte(value)}
		if err := client.ProduceSync(ctx, order).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}

	for read := 0; read < count; {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			log.Fatal(err)
		}
		fetches.EachRecord(func(order *kgo.Record) {
			fmt.Println(string(order.Key), string(order.Value))
			read++
		})
	}
	// franz-go commits what came before the last poll; the last is only known to be worked off here.
	if err := client.CommitUncommittedOffsets(ctx); err != nil {
		log.Fatal(err)
	}
}
