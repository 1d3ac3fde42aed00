import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;

/** Reads values as docs/clients.md says, on a machine with any time zone. */
public final class Readings {
    private static final String SQL = "SELECT 18446744073709551615::UBIGINT AS u, CAST(200::UTINYINT AS BIGINT) AS b, DATE '2024-05-17' AS day,"
        + " TIMESTAMP '2024-05-17 00:30:15.123456' AS moment, TIMESTAMPTZ '2024-05-17 12:30:15+02' AS instant,"
        + " CAST(TIME '10:11:12.5' AS VARCHAR) AS clock, [1, 2] AS list,"
        + " CAST([DATE '2024-05-17'] AS VARCHAR[]) AS days, 200::UTINYINT AS narrow, 'infinity'::DATE AS never,"
        + " CAST('infinity'::DATE AS VARCHAR) AS ever, CAST([18446744073709551615::UBIGINT] AS VARCHAR[]) AS large";

    public static void main(String[] arguments) throws SQLException {
        String url = "jdbc:arrow-flight-sql://" + arguments[0] + "/?useEncryption=false";
        try (Connection connection = DriverManager.getConnection(url);
             Statement statement = connection.createStatement();
             ResultSet rows = statement.executeQuery(SQL)) {
            rows.next();
            System.out.println(rows.getString("u") + " " + rows.getLong("b") + " " + rows.getObject("day", LocalDate.class) + " "
                + rows.getString("moment") + " " + rows.getObject("moment", LocalDateTime.class) + " "
                + rows.getObject("instant", Instant.class) + " " + rows.getString("clock") + " " + rows.getArray("list")
                + " " + rows.getArray("days") + " " + rows.getString("narrow") + " " + rows.getString("never").equals("infinity")
                + " " + rows.getString("ever") + " " + rows.getArray("large"));
        }
        try (Connection connection = DriverManager.getConnection(url);
             PreparedStatement statement = connection.prepareStatement("SELECT 1 AS a, 2 AS b WHERE false");
             ResultSet rows = statement.executeQuery()) {
            System.out.println(rows.getMetaData().getColumnCount() + " " + rows.next());
        }
    }
}
