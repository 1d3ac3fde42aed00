import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/** Calls all that DatabaseMetaData has, and prints what a tool would show. */
public final class Metadata {
    public static void main(String[] arguments) throws Exception {
        String url = "jdbc:arrow-flight-sql://" + arguments[0] + "/?useEncryption=false";
        try (Connection connection = DriverManager.getConnection(url)) {
            DatabaseMetaData metadata = connection.getMetaData();
            callEverything(metadata);
            print("schemas", metadata.getSchemas(), "TABLE_SCHEM");
            print("tables", metadata.getTables(null, "main", "%", new String[] {"TABLE"}), "TABLE_NAME");
            print("columns", metadata.getColumns(null, "main", "typed", "a%"), "COLUMN_NAME", "TYPE_NAME", "COLUMN_SIZE", "DECIMAL_DIGITS");
            print("key", metadata.getPrimaryKeys(null, "main", "songs"), "COLUMN_NAME", "KEY_SEQ", "PK_NAME");
            print("keys", metadata.getExportedKeys(null, null, "songs"), "PKTABLE_NAME");
            System.out.println("functions " + metadata.getNumericFunctions().split(",").length + " " + metadata.getStringFunctions().split(",").length
                + " " + metadata.getTimeDateFunctions().split(",").length + " " + metadata.getSystemFunctions().split(",").length);
            System.out.println("names " + metadata.storesMixedCaseIdentifiers() + metadata.supportsMixedCaseIdentifiers() + metadata.getIdentifierQuoteString());
            try (Statement statement = connection.createStatement()) {
                describe(statement, "SELECT t.id, t.amount, t.name, t.moment, t.amount + 1 AS more FROM typed t");
                statement.execute("SET timeout = 50");
                try (ResultSet rows = statement.executeQuery("SELECT current_user, current_schema(), version() LIKE 'livestate %'")) {
                    rows.next();
                    System.out.println("session " + rows.getString(1) + " " + rows.getString(2) + " " + rows.getBoolean(3));
                }
            }
        }
    }

    /** Calls each method without arguments; what is not supported must say so. */
    private static void callEverything(DatabaseMetaData metadata) throws Exception {
        Method[] methods = DatabaseMetaData.class.getDeclaredMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        int called = 0;
        List<String> failed = new ArrayList<>();
        for (Method method : methods) {
            if (method.getParameterCount() > 0) {
                continue;
            }
            called++;
            try {
                if (method.invoke(metadata) instanceof ResultSet rows) {
                    rows.close();
                }
            } catch (InvocationTargetException error) {
                failed.add(method.getName() + " " + error.getCause().getClass().getSimpleName());
            }
        }
        System.out.println("called " + (called > 120) + " " + failed);
    }

    private static void describe(Statement statement, String sql) throws SQLException {
        try (ResultSet rows = statement.executeQuery(sql)) {
            ResultSetMetaData found = rows.getMetaData();
            for (int column = 1; column <= found.getColumnCount(); column++) {
                System.out.println(found.getColumnName(column) + " of " + found.getSchemaName(column) + "." + found.getTableName(column)
                    + " " + found.getColumnTypeName(column) + " " + found.getPrecision(column) + " " + found.getScale(column)
                    + " " + found.isReadOnly(column) + found.isSearchable(column) + found.isCaseSensitive(column) + found.isAutoIncrement(column));
            }
        }
    }

    private static void print(String name, ResultSet rows, String... columns) throws SQLException {
        List<String> found = new ArrayList<>();
        try (rows) {
            while (rows.next()) {
                List<String> values = new ArrayList<>();
                for (String column : columns) {
                    values.add(rows.getString(column));
                }
                found.add(String.join(":", values));
            }
        }
        System.out.println(name + " " + found);
    }
}
