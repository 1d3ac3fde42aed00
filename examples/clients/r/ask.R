# Asks a host of livestate: Rscript ask.R grpc://localhost:8815 "SELECT 1 AS one"
# install.packages(c("adbcdrivermanager", "nanoarrow")); adbcflightsql is on R-multiverse.
library(adbcdrivermanager)
arguments <- commandArgs(trailingOnly = TRUE)
token <- Sys.getenv("LIVESTATE_TOKEN")
options <- list(adbcflightsql::adbcflightsql(), uri = arguments[1])
if (nzchar(token)) options[["adbc.flight.sql.authorization_header"]] <- paste("Bearer", token)
connection <- adbc_connection_init(do.call(adbc_database_init, options))
print(as.data.frame(read_adbc(connection, arguments[2])))
