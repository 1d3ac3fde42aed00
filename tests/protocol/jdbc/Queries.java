import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/** Asks a host through JDBC and prints one line an answer; `test_jdbc.py` compares them. */
public final class Queries {
    public static void main(String[] arguments) throws SQLException {
        String url = "jdbc:arrow-flight-sql://" + arguments[0] + "/?useEncryption=false";
        try (Connection connection = DriverManager.getConnection(url)) {
            statements(connection);
            parameters(connection);
            metadata(connection.getMetaData());
            try (Statement statement = connection.createStatement()) {
                statement.executeQuery("SELECT nothing FROM songs");
            } catch (SQLException error) {
                System.out.println("refused " + error.getMessage().contains("Traceback") + " " + error.getMessage().contains("nothing"));
            }
        }
        // Not closed: up to 18.3 the driver closes its channel before the session that a catalog opens, and fails.
        Connection spark = DriverManager.getConnection(url + "&catalog=livestate&livestate-dialect=spark");
        print("spark", spark.createStatement().executeQuery("SELECT `title` FROM songs WHERE song_id = 2"));
        try (Connection connection = DriverManager.getConnection(url, "me", "any"); Statement statement = connection.createStatement()) {
            print("user", statement.executeQuery("SELECT count(*) FROM songs"));
        }
        try (Connection connection = DriverManager.getConnection(url); Statement statement = connection.createStatement()) {
            activity(statement);
        }
        System.exit(0);
    }

    private static void activity(Statement statement) throws SQLException {
        try (ResultSet rows = statement.executeQuery("SHOW STATEMENTS")) {
            while (rows.next()) {
                System.out.println("activity " + rows.getString("state") + " " + rows.getString("statement"));
            }
        }
        try (ResultSet rows = statement.executeQuery("SHOW SESSIONS")) {
            System.out.println("sessions " + rows.next());
        }
        try {
            statement.executeQuery("CANCEL 'nothing'");
        } catch (SQLException error) {
            System.out.println("cancel " + error.getMessage().contains("No statement of this id"));
        }
    }

    private static void statements(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            print("rows", statement.executeQuery("SELECT song_id, title, plays FROM songs ORDER BY song_id"));
            print("again", statement.executeQuery("SELECT count(*) FROM big"));
            print("types", statement.executeQuery("SELECT id, tiny, single, amount, name, flag, day, moment FROM typed ORDER BY id"));
        }
    }

    private static void parameters(Connection connection) throws SQLException {
        try (PreparedStatement statement = connection.prepareStatement("SELECT title FROM songs WHERE song_id = ? OR title = ? ORDER BY title")) {
            statement.setLong(1, 1);
            statement.setString(2, "three");
            print("bound", statement.executeQuery());
            statement.setLong(1, 2);
            statement.setString(2, "none");
            print("bound again", statement.executeQuery());
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT id FROM typed WHERE amount = ? AND flag = ?")) {
            statement.setBigDecimal(1, new BigDecimal("12345.678"));
            statement.setBoolean(2, true);
            print("decimal", statement.executeQuery());
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT round(2.567, ?), DATE '2024-05-17' + ?")) {
            statement.setInt(1, 1);
            statement.setLong(2, 3);
            print("integers", statement.executeQuery());
        }
    }

    private static void metadata(DatabaseMetaData metadata) throws SQLException {
        System.out.println("product " + metadata.getDatabaseProductName() + " " + metadata.isReadOnly() + " " + metadata.supportsTransactions()
            + " " + metadata.getIdentifierQuoteString() + " " + metadata.supportsUnion() + " " + metadata.getMaxTableNameLength());
        print("catalogs", metadata.getCatalogs());
        print("table types", metadata.getTableTypes());
        List<String> names = new ArrayList<>();
        try (ResultSet tables = metadata.getTables(null, null, "s%", null)) {
            while (tables.next()) {
                names.add(tables.getString("TABLE_SCHEM") + "." + tables.getString("TABLE_NAME"));
            }
        }
        System.out.println("tables " + names);
        List<String> columns = new ArrayList<>();
        try (ResultSet found = metadata.getColumns(null, null, "typed", null)) {
            while (found.next()) {
                columns.add(found.getString("COLUMN_NAME") + ":" + found.getString("TYPE_NAME"));
            }
        }
        System.out.println("columns " + columns);
        try (ResultSet keys = metadata.getPrimaryKeys(null, null, "songs")) {
            while (keys.next()) {
                System.out.println("key " + keys.getString("COLUMN_NAME") + " " + keys.getInt("KEY_SEQ"));
            }
        }
    }

    private static void print(String name, ResultSet rows) throws SQLException {
        StringBuilder line = new StringBuilder(name);
        while (rows.next()) {
            line.append(" (");
            for (int column = 1; column <= rows.getMetaData().getColumnCount(); column++) {
                line.append(column > 1 ? ", " : "").append(rows.getObject(column));
            }
            line.append(')');
        }
        rows.close();
        System.out.println(line);
    }
}
