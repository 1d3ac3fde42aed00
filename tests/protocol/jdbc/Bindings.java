import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.HexFormat;
import java.util.TreeSet;

/** Reads lines of column, setter and value, and prints for each which rows of the store `edges` have that value, or "refused". */
public final class Bindings {
    public static void main(String[] arguments) throws IOException, SQLException {
        String url = "jdbc:arrow-flight-sql://" + arguments[0] + "/?useEncryption=false";
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        try (Connection connection = DriverManager.getConnection(url)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] parts = line.split("\t", -1);
                System.out.println(found(connection, parts[0], parts[1], parts[2]));
            }
        }
        System.exit(0);
    }

    private static String found(Connection connection, String column, String setter, String value) {
        TreeSet<Long> keys = new TreeSet<>();
        try (PreparedStatement statement = connection.prepareStatement("SELECT k FROM edges WHERE " + column + " = ?")) {
            bind(statement, setter, value);
            try (ResultSet rows = statement.executeQuery()) {
                while (rows.next()) {
                    keys.add(rows.getLong(1));
                }
            }
        } catch (SQLException | RuntimeException error) {
            return "refused";
        }
        return keys.toString();
    }

    private static void bind(PreparedStatement statement, String setter, String value) throws SQLException {
        switch (setter) {
            case "long" -> statement.setLong(1, Long.parseLong(value));
            case "decimal" -> statement.setBigDecimal(1, new BigDecimal(value));
            case "float" -> statement.setFloat(1, Float.parseFloat(value));
            case "double" -> statement.setDouble(1, Double.parseDouble(value));
            case "boolean" -> statement.setBoolean(1, Boolean.parseBoolean(value));
            case "string" -> statement.setString(1, value);
            case "bytes" -> statement.setBytes(1, HexFormat.of().parseHex(value));
            case "date" -> statement.setDate(1, Date.valueOf(value));
            case "timestamp" -> statement.setTimestamp(1, Timestamp.valueOf(value));
            case "null" -> statement.setNull(1, Types.NULL);
            default -> throw new IllegalArgumentException(setter);
        }
    }
}
