import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;

/** Asks a host of livestate: java -cp flight-sql-jdbc-driver.jar Ask.java localhost:8815 "SELECT 1 AS one". */
public final class Ask {
    public static void main(String[] arguments) throws SQLException {
        String token = System.getenv("LIVESTATE_TOKEN");
        String url = "jdbc:arrow-flight-sql://" + arguments[0] + "/?useEncryption=false" + (token == null ? "" : "&token=" + token);
        try (Connection connection = DriverManager.getConnection(url);
                ResultSet rows = connection.createStatement().executeQuery(arguments[1])) {
            while (rows.next()) {
                for (int column = 1; column <= rows.getMetaData().getColumnCount(); column++) {
                    System.out.print((column > 1 ? "\t" : "") + rows.getString(column));
                }
                System.out.println();
            }
        }
    }
}
