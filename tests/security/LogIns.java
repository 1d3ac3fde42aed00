import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.DriverManager;
import java.sql.SQLException;

/** Asks a host with each set of connection properties: a line of the file is one set. */
public class LogIns {
    public static void main(String[] args) throws Exception {
        for (String properties : Files.readAllLines(Path.of(args[1]))) {
            String url = "jdbc:arrow-flight-sql://" + args[0] + "?" + properties;
            try (var connection = DriverManager.getConnection(url);
                    var statement = connection.createStatement();
                    var rows = statement.executeQuery("SELECT count(*) FROM songs")) {
                rows.next();
                System.out.println("rows " + rows.getLong(1));
            } catch (SQLException error) {
                System.out.println("refused");
            }
        }
    }
}
