// Asks a host of livestate: go run . grpc://localhost:8815 "SELECT 1 AS one"
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/apache/arrow-adbc/go/adbc"
	"github.com/apache/arrow-adbc/go/adbc/driver/flightsql"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

func main() {
	if err := ask(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, uri, sql string) error {
	options := map[string]string{adbc.OptionKeyURI: uri}
	if token := os.Getenv("LIVESTATE_TOKEN"); token != "" {
		options[flightsql.OptionAuthorizationHeader] = "Bearer " + token
	}
	database, err := flightsql.NewDriver(memory.DefaultAllocator).NewDatabase(options)
	if err != nil {
		return err
	}
	defer database.Close()
	connection, err := database.Open(ctx)
	if err != nil {
		return err
	}
	defer connection.Close()
	statement, err := connection.NewStatement()
	if err != nil {
		return err
	}
	defer statement.Close()
	if err := statement.SetSqlQuery(sql); err != nil {
		return err
	}
	rows, _, err := statement.ExecuteQuery(ctx)
	if err != nil {
		return err
	}
	defer rows.Release()
	for rows.Next() {
		batch, err := rows.RecordBatch().MarshalJSON()
		if err != nil {
			return err
		}
		fmt.Println(string(batch))
	}
	return rows.Err()
}
